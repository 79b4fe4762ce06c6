package users

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var bg = context.Background()

// fakeKeys is a Keys in memory.
type fakeKeys struct {
	mu      sync.Mutex
	texts   map[string]string
	version int
	down    error
	between func() // called once between reading and writing
}

func (k *fakeKeys) Texts(_ context.Context, folder, since string) (string, map[string]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := fmt.Sprint(k.version, len(k.texts))
	if k.down != nil || now == since {
		return since, nil, k.down
	}
	all := map[string]string{}
	for key, text := range k.texts {
		if name, ok := strings.CutPrefix(key, folder+"/"); ok {
			all[name] = text
		}
	}
	return now, all, nil
}

func (k *fakeKeys) Edit(_ context.Context, folder, name string, change func(string) (string, error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down != nil {
		return k.down
	}
	key := folder + "/" + name
	old := k.texts[key]
	text, err := change(old)
	if between := k.between; err == nil && between != nil {
		k.between = nil
		between()
		text, err = change(k.texts[key])
	}
	if err != nil || text == old {
		return err
	}
	if k.version++; text == "" {
		delete(k.texts, key)
	} else {
		k.texts[key] = text
	}
	return nil
}

func (k *fakeKeys) Unavailable(err error) bool { return err == errDown }

var errDown = errors.New("etcd is down")

// put adds a user, or takes the place of the one that has the name.
func put(s Store, u User) error {
	return s.Update(bg, u.Name, func(*User) (*User, error) { return &u, nil })
}

// cheapest is cheap, but a file accepts its hash, whose password nobody knows.
func cheapest(t testing.TB, name, may string) User {
	h, err := parseHash(someHash)
	if err != nil {
		t.Fatal(err)
	}
	return User{name, rights(t, may), h}
}

func TestEditsOfAFileExcludeEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := Add(bg, NewFile(path), cheapest(t, fmt.Sprint("user", i), "")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := Load(path); err != nil || len(list) != 20 {
		t.Errorf("%d users of 20: %v", len(list), err)
	}
}
