package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func show(list []Event) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%v %s %v\n", e.Level, e.Text, e.Attrs)
	}
	return b.String()
}

type secondsLeft int

func (s secondsLeft) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(int(s), " s")) }

func TestKeepsWhatIsLogged(t *testing.T) {
	var l Log
	var out bytes.Buffer
	log := slog.New(l.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})))
	log.Debug("no event")
	log.Info("lease acquired", "lane", 1, "took", time.Second)
	list := []string{"x"}
	log.With("a", 1).WithGroup("store").With("b", 2).
		Warn("slow", "c", errors.New("late"), slog.Group("d", "e", 5), "list", list)
	list[0] = "y"
	log.Error("lost", "left", secondsLeft(4), "text", strings.Repeat("x", 5000)+"é")
	want := "ERROR lost [left=4 s text=" + strings.Repeat("x", maxText) + "...]\n" +
		"WARN slow [a=1 store.b=2 store.c=late store.d.e=5 store.list=[x]]\n" +
		"INFO lease acquired [lane=1 took=1s]\n"
	if got := show(l.Last(10)); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "msg=lost") {
		t.Errorf("the log shows: %s", got)
	}
	if got := l.Last(1); len(got) != 1 || got[0].Text != "lost" {
		t.Errorf("the last one: %v", got)
	}
	if len(l.Last(0))+len(l.Last(-1)) != 0 {
		t.Error("none was asked for")
	}
	many := make([]any, 0, 200)
	for i := range 100 {
		many = append(many, fmt.Sprint("k", i), i)
	}
	if log.Info("many", many...); len(l.Last(1)[0].Attrs) != maxAttrs {
		t.Errorf("%d attributes are kept", len(l.Last(1)[0].Attrs))
	}
}

// The next handler sees the same lines as without events.
func TestTheLogStaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var with, without bytes.Buffer
		var l Log
		for _, log := range []*slog.Logger{slog.New(l.Handler(slog.NewJSONHandler(&with, nil))),
			slog.New(slog.NewJSONHandler(&without, nil))} {
			log.With("a", 1).WithGroup("").WithGroup("g").With("b", secondsLeft(2)).
				Info("text", "c", errors.New("e"), slog.Attr{})
		}
		if with.String() != without.String() {
			t.Errorf("with events:\n%swithout:\n%s", with.String(), without.String())
		}
		if got := l.Last(Size); len(got) != 1 || !got[0].At.Equal(time.Now()) {
			t.Errorf("kept: %v", got)
		}
	})
}

// TestFloods: no text that comes again and again pushes others out.
func TestFloods(t *testing.T) {
	var l Log
	log := slog.New(l.Handler(slog.NewTextHandler(io.Discard, nil)))
	log.Error("lease lost")
	for i := range 3 * Size {
		log.Warn("state file not written", "n", i)
		log.Info("state file written again", "n", i)
	}
	list := l.Last(2 * Size)
	if len(list) != Size || list[Size-1].Text != "lease lost" {
		t.Errorf("%d are kept, and the oldest is %v", len(list), list[len(list)-1])
	}
	if newest := list[0].Attrs[0].Value.Int64(); newest != 3*Size-1 {
		t.Errorf("the newest one is number %d", newest)
	}
	for i := 1; i < len(list)-1; i++ {
		if list[i].Attrs[0].Value.Int64() > list[i-1].Attrs[0].Value.Int64() {
			t.Fatalf("number %d comes after number %d", list[i].Attrs[0].Value.Int64(), list[i-1].Attrs[0].Value.Int64())
		}
	}
	for i := range Size / 4 { // texts that are all different
		log.Info(fmt.Sprint("another ", i))
	}
	got := show(l.Last(Size))
	if !strings.Contains(got, "lease lost") || strings.Count(got, "state file") != Size*3/4-1 {
		t.Errorf("the texts of the flood do not give way first:\n%s", got)
	}
}

func TestAnyGoroutineMayLog(t *testing.T) {
	var l Log
	log := slog.New(l.Handler(slog.NewTextHandler(io.Discard, nil)))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			mine := log.With("goroutine", i)
			for n := range 200 {
				mine.Info("text", "n", n)
				l.Last(n)
			}
		})
	}
	all.Wait()
	if n := len(l.Last(Size)); n != Size {
		t.Errorf("%d are kept", n)
	}
}
