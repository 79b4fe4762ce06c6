package katsubushitest_test

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/katsubushitest"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// dial makes a client that is closed with the test.
func dial(t testing.TB, addr string, c client.Config) *client.Client {
	t.Helper()
	c.Timeout, c.DialTimeout = time.Minute, time.Minute // the machine may be busy
	ids, err := client.New(client.Static(addr), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ids.Close() })
	return ids
}

func TestStart(t *testing.T) {
	a, b := katsubushitest.Start(t), katsubushitest.Start(t)
	seen := map[uint64]bool{}
	for _, addr := range []string{a, b} {
		ids := dial(t, addr, client.Config{})
		many, err := ids.IDs(t.Context(), 5000)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range many {
			if seen[id] {
				t.Fatalf("%d comes from two daemons", id)
			}
			seen[id] = true
		}
	}
	if conn, err := net.Dial("tcp", a); err != nil {
		t.Error(err)
	} else {
		defer conn.Close()
		fmt.Fprint(conn, "*1\r\n$4\r\nPING\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "+PONG\r\n" {
			t.Errorf("Redis's protocol: %q, %v", line, err)
		}
	}
}

func TestOptions(t *testing.T) {
	narrow := generator.Twitter()
	addr := katsubushitest.Start(t, katsubushitest.Names("orders sequence start=1000", "sessions uuid7"),
		katsubushitest.OnlyNames(), katsubushitest.User("shop", "secret"), katsubushitest.Layout(narrow))
	ids := dial(t, addr, client.Config{User: "shop", Password: "secret"})
	if id, err := ids.Generator("orders").ID(t.Context()); id != 1000 || err != nil {
		t.Errorf("the first order is %d, %v", id, err)
	}
	if text, err := ids.Generator("sessions").Text(t.Context()); len(text) != 36 || err != nil {
		t.Errorf("the first session is %q, %v", text, err)
	}
	if _, err := ids.Generator("oders").ID(t.Context()); !errors.Is(err, client.ErrRefused) {
		t.Errorf("a name that is not declared: %v", err)
	}
	id, err := ids.ID(t.Context())
	if at := narrow.Decompose(id).Time; err != nil || time.Since(at).Abs() > time.Hour {
		t.Errorf("an id of this layout is of %v, %v", at, err)
	}
	stranger := dial(t, addr, client.Config{User: "shop", Password: "wrong"})
	if _, err := stranger.ID(t.Context()); !errors.Is(err, client.ErrRefused) {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestNothingIsLeft: a daemon's goroutines and port end with its test.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	var addr string
	var out childprocess.Log
	t.Run("inner", func(t *testing.T) {
		addr = katsubushitest.Start(t, katsubushitest.Names("orders sequence"), katsubushitest.User("shop", "secret"),
			katsubushitest.Log(slog.New(slog.NewTextHandler(&out, nil))))
		ids := dial(t, addr, client.Config{User: "shop", Password: "secret"})
		if _, err := ids.Generator("orders").ID(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
	if !strings.Contains(out.String(), "msg=listening") {
		t.Errorf("the log has nothing of the daemon: %s", out.String())
	}
	childprocess.Until(t, "the daemon's goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// A failing is a test that fails.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestWrongOptions fail the test with all that is wrong.
func TestWrongOptions(t *testing.T) {
	f := &failing{TB: t}
	var done sync.WaitGroup
	done.Go(func() { katsubushitest.Start(f, katsubushitest.Names("orders sequenze", "x uuid9")) })
	done.Wait()
	for _, part := range []string{"sequenze", "uuid9"} {
		if !strings.Contains(f.text, part) {
			t.Errorf("%q does not say what is wrong with %s", f.text, part)
		}
	}
}
