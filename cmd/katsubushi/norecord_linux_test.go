package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// What daemons do that are not told of a state directory.

// TestProcessClockStepsBackBeforeARestart: within a run the clock goes back by three seconds, which
// a busy daemon does not follow; then it is restarted, as for a new version. Whoever gives it no
// state directory has one by default.
func TestProcessClockStepsBackBeforeARestart(t *testing.T) {
	t.Parallel()
	began, c := time.Now(), census{lanes: 1}
	args := []string{"-worker-id", "28", "-state-dir", "", "-state-any-disk"}
	d := startShifted(t, 0, args...)
	l := c.load(t, d.Addr(), 4, 20)
	l.awaitMore(t, 20_000)
	d.step(t, -3*time.Second)
	d.awaitDifference(t, -3*time.Second, time.Second)
	l.awaitMore(t, 20_000)
	l.finish(t)
	d.end(t, syscall.SIGTERM)

	largest := c.newRun()
	d = startShifted(t, -3*time.Second, args...)
	l = c.load(t, d.Addr(), 4, 20)
	l.awaitMore(t, 20_000)
	l.finish(t)
	c.above(t, largest)
	c.issuedBetween(t, began)
	c.verdict(t)
}

// TestProcessWithoutARecordSaysWhenToRestart: at the start that there is none, at the step how far
// ids are ahead, at the end when the wall clock will have passed the last one.
func TestProcessWithoutARecordSaysWhenToRestart(t *testing.T) {
	t.Parallel()
	const (
		started = "no state directory: ids repeat if this host's clock goes back, in a run or between two, and the next " +
			"run starts before it has passed the last id"
		stepped = "no state directory: once this daemon stops, do not start it again before the wall clock has passed its " +
			"last id"
		stopped = "no state directory: do not start this daemon again before the wall clock has passed its last id"
	)
	c := census{lanes: 1}
	d := startShifted(t, 0, "-worker-id", "29", "-state-dir", "none")
	l := c.load(t, d.Addr(), 4, 20)
	d.awaitHeartbeats(t)
	if d.Entry(started) == nil || d.Entry(stepped) != nil {
		t.Fatal("at the start it says:", d.Logged())
	}
	d.step(t, -time.Minute)
	await(t, "it has noticed the step", func() bool { return d.Entry(stepped) != nil })
	of := func(msg, figure string) time.Duration {
		text, _ := d.Entry(msg)[figure].(string)
		v, err := time.ParseDuration(text)
		if err != nil {
			t.Errorf("%s of %q is no duration: %v", figure, msg, err)
		}
		return v
	}
	const back, runAhead = "the wall clock went back: the id clock follows no further than the last id", time.Second
	await(t, "the step is logged", func() bool { return d.Entry(back) != nil })
	if wait, want := of(stepped, "wait"), of(back, "adjusted_by")-of(back, "wall_minus_id_clock")+runAhead; wait != want ||
		wait < 30*time.Second {
		t.Errorf("at the step it says %v, not %v", wait, want)
	}
	l.finish(t)
	last := generator.Katsubushi().Decompose(oneID(t, d.Addr())).Time
	d.end(t, syscall.SIGTERM)
	e := d.Entry(stopped)
	if e == nil {
		t.Fatal("at the end it says:", d.Logged())
	}
	if until, err := time.Parse(time.RFC3339Nano, e["until"].(string)); err != nil || !until.Equal(last) {
		t.Errorf("the last id is of %v, and at the end it says %v: %v", last, until, err)
	}
	if wait := of(stopped, "wait"); wait > time.Minute+runAhead || wait < time.Until(last)+time.Minute-time.Millisecond {
		t.Errorf("at the end it says %v, %v before the last id by a clock that is a minute ahead", wait, time.Until(last))
	}

	ordinary := start(t, "-worker-id", "29", "-state-dir", "none")
	oneID(t, ordinary.Addr())
	ordinary.end(t, syscall.SIGTERM)
	if ordinary.Entry(started) == nil || ordinary.Entry(stopped) != nil {
		t.Error("without a step it says:", ordinary.Logged())
	}
}

// oneID asks for an id on a connection of its own.
func oneID(t *testing.T, addr string) uint64 {
	t.Helper()
	conn := dial(t, "tcp", addr)
	fmt.Fprint(conn, "get id\r\n")
	r := bufio.NewReader(conn)
	r.ReadString('\n')
	line, err := r.ReadString('\n')
	id, e := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil || e != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return id
}
