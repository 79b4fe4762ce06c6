package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// announce makes an announcement, and peers reads all. They have a minute, on a machine that may be busy.
func (d *daemon) announce(name, text string) error {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	return d.Announce(ctx, name, text)
}

// listing is Listing, and again while Redis is late.
func (d *daemon) listing(known []string) (all map[string]string, left int, err error) {
	all, err = again(late, func() (all map[string]string, err error) {
		all, left, err = d.Listing(d.Context(), known)
		return all, err
	})
	return all, left, err
}

// announced announces one and lists all, again if that took so long that the announcement may have expired.
func (d *daemon) announced(name string, known []string) (all map[string]string, left int, err error) {
	d.Helper()
	for range 20 {
		began := time.Now()
		if err := d.announce(name, "one"); err != nil && !late(err) {
			d.Fatal(err)
		}
		all, left, err = d.listing(known)
		if err != nil || all[name] != "" || time.Since(began) < announcementLife/2 {
			break
		}
	}
	return all, left, err
}

// reason is what anybody may read of a refusal, and when to try again: the text names the user, and differs between
// versions of Redis.
func reason(err error) string {
	var r interface{ Reason() string }
	var hint interface{ RetryAfter() time.Duration }
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &r):
		return "error: " + err.Error()
	case errors.As(err, &hint):
		return fmt.Sprintf("%s (again in %v)", r.Reason(), hint.RetryAfter())
	}
	return r.Reason()
}

// ofAnnouncements are calls of a scene.
func (s *scene) ofAnnouncements() script.Calls {
	// told is how many texts there are, the size of the long one if there are few, and whether names were left out
	told := func(all map[string]string, left int, err error) string {
		if err != nil {
			return reason(err)
		}
		said := fmt.Sprintf("%d texts, of d.a %q, left out some: %v", len(all), all["d.a"], left > 0)
		if long := len(all["d.long"]); long > 0 && len(all) < 10 {
			said += fmt.Sprintf(", of d.long %d bytes", long)
		}
		return said
	}
	return script.Calls{
		"announce-told": func(name, as, text string) string {
			d := s.daemons[name]
			before := d.wire.Link
			said := reason(d.announce(as, text))
			if d.wire.Link != before {
				said += ", and the connection is given up"
			}
			return said
		},
		"peers-told": func(name string) string {
			_, err := s.daemons[name].Peers(context.Background())
			return reason(err)
		},
		// announced a d.a [KNOWN ...]: it announces that, and lists what there is
		"announced": func(name, as string, known ...string) string { return told(s.daemons[name].announced(as, known)) },
		// finds a d.a: it announces that until it finds it among the others: half of them are read
		"finds": func(name, as string) string {
			for range 1000 {
				if all, _, err := s.daemons[name].announced(as, nil); err != nil || all[as] != "" {
					return reason(err)
				}
			}
			return "no"
		},
		// names m 900 d.x 1e18 [TEXT]: a foreign program's, with a score, and with a text each
		"names": func(of string, n int, prefix, score string, text ...string) {
			names, texts := []any{"ZADD", s.key("peers")}, []any{"MSET"}
			for i := range n {
				name := fmt.Sprint(prefix, i)
				names, texts = append(names, score, name), append(texts, s.key("peers:"+name), strings.Join(text, " "))
			}
			if s.servers[of].Do(names...); len(text) > 0 {
				s.servers[of].Do(texts...)
			}
		},
		"refusal": func(text string) string { return reason(&refused{errors.New(text)}) },
	}
}
