package users

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
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

// onEach runs a test on both Stores.
func onEach(t *testing.T, test func(t *testing.T, s Store)) {
	t.Run("file", func(t *testing.T) { test(t, NewFile(filepath.Join(t.TempDir(), "users"))) })
	t.Run("keys", func(t *testing.T) { test(t, NewShared(&fakeKeys{texts: map[string]string{}})) })
}

// put adds a user, or takes the place of the one that has the name.
func put(s Store, u User) error {
	return s.Update(bg, u.Name, func(*User) (*User, error) { return &u, nil })
}

func names(t *testing.T, s Store) string {
	t.Helper()
	_, list, err := s.Changes(bg, "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var all []string
	for _, u := range list {
		all = append(all, u.Name+" "+u.Rights.String())
	}
	if len(all) == 2 && all[0] > all[1] {
		all[0], all[1] = all[1], all[0]
	}
	return strings.Join(all, ", ")
}

func TestStores(t *testing.T) {
	onEach(t, func(t *testing.T, s Store) {
		ann, bob := cheapest(t, "ann", "a*=get"), cheapest(t, "bob", "")
		var missing MissingError
		var exists ExistsError
		check := func(err error, as any, want string) {
			t.Helper()
			if as == nil && err != nil || as != nil && !errors.As(err, as) {
				t.Fatalf("error %v", err)
			}
			if got := names(t, s); got != want {
				t.Fatalf("the users are %q; want %q", got, want)
			}
		}
		check(Remove(bg, s, "ann"), &missing, "")
		check(Add(bg, s, ann), nil, "ann a*=get")
		check(Add(bg, s, ann), &exists, "ann a*=get")
		check(put(s, bob), nil, "ann a*=get, bob ")
		now, list, err := s.Changes(bg, "")
		if again, none, err2 := s.Changes(bg, now); err != nil || len(list) != 2 || err2 != nil || again != now ||
			none != nil {
			t.Errorf("nothing has changed: %q %q %v %v %v", now, again, none, err, err2)
		}
		plus := func(text string) func(Rights) (Rights, error) {
			return func(r Rights) (Rights, error) { return r.Plus(rights(t, text)) }
		}
		check(Change(bg, s, "bob", plus("b=incr")), nil, "ann a*=get, bob b=incr")
		if later, list, err := s.Changes(bg, now); later == now || len(list) != 2 || err != nil {
			t.Errorf("bob has changed: %q %v %v", later, list, err)
		}
		check(Change(bg, s, "eve", plus("b=incr")), &missing, "ann a*=get, bob b=incr")
		refusal := errors.New("no")
		if err := Change(bg, s, "bob", func(Rights) (Rights, error) { return Rights{}, refusal }); err != refusal {
			t.Error(err)
		}
		check(Remove(bg, s, "ann"), nil, "bob b=incr")
		check(Remove(bg, s, "ann"), &missing, "bob b=incr")
	})
}

// A change that would leave nobody with admin on every key is refused. Admin on other patterns does not count.
func TestTheLastAdminStays(t *testing.T) {
	onEach(t, func(t *testing.T, s Store) {
		kept := KeepAdmin(s, "-force")
		to := func(text string) func(Rights) (Rights, error) {
			return func(Rights) (Rights, error) { return rights(t, text), nil }
		}
		for _, u := range []User{cheapest(t, "ann", "**=get;*=admin"), cheapest(t, "bob", "orders*=admin;*=get")} {
			if err := Add(bg, kept, u); err != nil { // the first one: there is nothing yet
				t.Fatal(err)
			}
		}
		refused := func(what string, err error) {
			t.Helper()
			var last LastAdminError
			if !errors.As(err, &last) || last.Name != "ann" || !strings.HasSuffix(err.Error(), "-force does it all the same") {
				t.Errorf("%s: %v", what, err)
			}
		}
		const both = "ann **=get;*=admin, bob orders*=admin;*=get"
		refused("revoked", Change(bg, kept, "ann", to("*=get")))
		refused("for some keys only", Change(bg, kept, "ann", to("a*=admin")))
		refused("removed", Remove(bg, kept, "ann"))
		if got := names(t, s); got != both {
			t.Errorf("the users are %q", got)
		}
		check := func(what string, err error, want string) {
			t.Helper()
			if got := names(t, s); err != nil || got != want {
				t.Fatalf("%s: %v; the users are %q, want %q", what, err, got, want)
			}
		}
		check("another secret", kept.Update(bg, "ann", func(old *User) (*User, error) {
			u := *old
			return &u, nil
		}), both)
		check("one who has it for some", Change(bg, kept, "bob", to("*=get")), "ann **=get;*=admin, bob *=get")
		check("a second one", Change(bg, kept, "bob", to("*=admin")), "ann **=get;*=admin, bob *=admin")
		check("one of two", Change(bg, kept, "ann", to("a=get")), "ann a=get, bob *=admin")
		check("with force", Change(bg, s, "bob", to("")), "ann a=get, bob ")
		check("where there is none", Remove(bg, kept, "bob"), "ann a=get")
	})
}

// Who else has admin must be known before one loses it.
func TestAdminsThatCannotBeRead(t *testing.T) {
	keys := &fakeKeys{texts: map[string]string{}}
	s := KeepAdmin(NewShared(keys), "-force")
	for _, u := range []User{cheapest(t, "ann", "*=admin"), cheapest(t, "bob", "*=get")} {
		if err := Add(bg, s, u); err != nil {
			t.Fatal(err)
		}
	}
	keys.texts["user/eve"] = "nonsense"
	if err := Remove(bg, s, "ann"); err == nil || !strings.Contains(err.Error(), "eve") {
		t.Error(err)
	}
	if err := Remove(bg, s, "bob"); err != nil {
		t.Error(err)
	}
}

// cheapest is cheap, but a file accepts its hash, whose password nobody knows.
func cheapest(t testing.TB, name, may string) User {
	h, err := parseHash(someHash)
	if err != nil {
		t.Fatal(err)
	}
	return User{name, rights(t, may), h}
}

// What one user's change leaves alone: other lines, byte by byte, the mode, and a link to the file.
func TestFilesAreEditedInPlace(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "users"), filepath.Join(dir, "link")
	text := "ann:sec:ret\r\n\nbob:x\nann:other\nlast:no newline"
	if err := os.WriteFile(path, []byte(text), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("users", link); err != nil {
		t.Fatal(err)
	}
	s := NewFile(link)
	if err := put(s, cheapest(t, "eve", "*=get")); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	eve := "eve:" + someHash + ":*=get\n"
	if got := content(); got != text+"\n"+eve {
		t.Errorf("added: %q", got)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Error("the link is none any more")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the mode is %v", info.Mode())
	}
	minus := func(r Rights) (Rights, error) { return r.Minus(rights(t, "*=incr")) }
	if err := Change(bg, s, "ann", minus); err != nil {
		t.Fatal(err)
	}
	got := content()
	line, rest, _ := strings.Cut(got, "\n")
	if u, err := parseLine(line); err != nil || u.Rights.String() != "*=get" || !u.secret.(*hash).is([]byte("sec:ret")) ||
		rest != "\nbob:x\nlast:no newline\n"+eve {
		t.Errorf("a plain password with other rights: %q, %v", got, err)
	}
	if err := Change(bg, s, "bob", func(r Rights) (Rights, error) {
		return r.Plus(rights(t, "*=get"))
	}); err != nil || content() != got {
		t.Errorf("rights that there are already: %v, %q", err, content())
	}
	for _, name := range []string{"ann", "bob", "last"} {
		if err := Remove(bg, s, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(bg, s, "eve"); err == nil || !strings.Contains(err.Error(), "no users") || content() != "\n"+eve {
		t.Errorf("the last user: %v, %q", err, content())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("something is left over: %v", entries)
	}
	os.Chmod(path, 0o644)
	for _, err := range []error{put(s, cheapest(t, "x", "")), func() error {
		_, _, err := s.Changes(bg, "")
		return err
	}()} {
		if err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("others can read it: %v", err)
		}
	}
}

func TestANewFileIsItsOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	if err := Add(bg, NewFile(path), cheapest(t, "ann", "")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
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

// The file is read again after a change of content, of the same size too, and of the mode.
func TestChangesOfAFileAreSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	s := NewFile(path)
	write := func(text string, mode fs.FileMode, at time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode),
			os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	write("ann:one\n", 0o600, at)
	now, list, err := s.Changes(bg, "")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	write("ann:two\n", 0o600, at.Add(time.Nanosecond*1000))
	next, list, err := s.Changes(bg, now)
	if err != nil || next == now || len(list) != 1 || list[0].secret.text() != "two" {
		t.Errorf("another time: %q %v %v", next, list, err)
	}
	write("ann:two\n", 0o644, at.Add(time.Nanosecond*1000))
	if same, list, err := s.Changes(bg, next); err == nil || same != next || list != nil {
		t.Errorf("another mode: %q %v %v", same, list, err)
	}
	write("ann:two\nbob\neve\n", 0o600, at)
	if _, _, err := s.Changes(bg, next); err == nil || strings.Count(err.Error(), path+": line ") != 2 {
		t.Errorf("two bad lines: %v", err)
	}
	os.Remove(path)
	if _, _, err := s.Changes(bg, next); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	os.WriteFile(path, []byte("eve:"+someHash+":\nann:secret\n"), 0o600)
	if name, password, ok, err := First(path); name != "ann" || password != "secret" || !ok || err != nil {
		t.Error(name, password, ok, err)
	}
	os.WriteFile(path, []byte("eve:"+someHash+":\n"), 0o600)
	if name, password, ok, err := First(path); ok || err != nil {
		t.Error(name, password, ok, err)
	}
	if _, _, _, err := First(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestKeysThatAreNotUsers(t *testing.T) {
	k := &fakeKeys{texts: map[string]string{}}
	s := NewShared(k)
	for text, want := range map[string]string{
		"ann:plain": "a plain password", "bob:" + someHash + ":": "another user's", "ann:" + someHash: "no rights",
		"x": "user:password expected",
	} {
		k.texts["user/ann"] = text
		_, _, err := s.Changes(bg, "")
		err2 := Change(bg, s, "ann", func(r Rights) (Rights, error) { return r, nil })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "user/") || err2 == nil ||
			err2.Error() != err.Error() {
			t.Errorf("%s: %v and %v", text, err, err2)
		}
	}
	delete(k.texts, "user/ann")
	if err := put(s, User{"ann", everything(Issue), plain("x")}); err == nil ||
		!strings.Contains(err.Error(), "plain password") {
		t.Errorf("a plain password: %v", err)
	}
	if err := put(s, cheapest(t, "a/b", "")); err == nil {
		t.Error("a name with a slash")
	}
	k.down = errDown
	_, _, err := s.Changes(bg, "")
	for _, err := range []error{err, put(s, cheapest(t, "ann", ""))} {
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "etcd is down") {
			t.Error(err)
		}
	}
	k.down = errors.New("wrong password")
	if _, _, err := s.Changes(bg, ""); errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

// Two operators grant at the same time: both rights are there.
func TestGrantsAtTheSameTimeAddUp(t *testing.T) {
	k := &fakeKeys{texts: map[string]string{}}
	s := NewShared(k)
	if err := Add(bg, s, cheapest(t, "ann", "")); err != nil {
		t.Fatal(err)
	}
	k.between = func() { k.texts["user/ann"] = cheapest(t, "ann", "b=get").line() }
	if err := Change(bg, s, "ann", func(r Rights) (Rights, error) { return r.Plus(rights(t, "a=get")) }); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); got != "ann b=get;a=get" {
		t.Error(got)
	}
}
