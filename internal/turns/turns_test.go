package turns

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func connected(context.Context) (string, error) { return "conn", nil }

// call is a Take that connects at once and then takes so long.
func call(ctx context.Context, turn Turn, took time.Duration, answer int, heard *[]int) (int, error) {
	return Take(ctx, turn, "store", "host:1", connected, func(conn string) (int, func(), error) {
		time.Sleep(took)
		return answer, func() { *heard = append(*heard, answer) }, nil
	})
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %q", err, text)
	}
}

// A call that is given up keeps the turn until it ends, and nobody hears its answer. Others wait for it,
// but not for longer than they have time.
func TestACallThatIsGivenUpKeepsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, heard := New(), []int(nil)
		if v, err := call(within(t, time.Second), turn, time.Millisecond, 1, &heard); v != 1 || err != nil {
			t.Error(v, err)
		}
		synctest.Wait()
		began := time.Now()
		_, err := call(within(t, time.Second), turn, 5*time.Second, 2, &heard)
		wantError(t, err, "no answer from host:1 yet, the call may be carried out")
		_, err = call(within(t, time.Second), turn, 0, 3, &heard)
		wantError(t, err, "host:1 has not answered an earlier call yet")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the callers waited for %v", took)
		}
		if v, err := call(t.Context(), turn, 0, 4, &heard); v != 4 || err != nil || time.Since(began) != 5*time.Second {
			t.Error(v, err, time.Since(began))
		}
		synctest.Wait()
		if len(heard) != 2 || heard[0] != 1 || heard[1] != 4 {
			t.Errorf("answers %v were heard", heard)
		}
	})
}

// A connection is made although its caller has no time, so that the next one has it. But the call of one
// that has gone is not sent.
func TestConnectingOutlivesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, connects, calls := New(), 0, 0
		slow := func(ctx context.Context) (int, error) {
			connects++
			time.Sleep(3 * time.Second)
			if err := ctx.Err(); err != nil {
				t.Errorf("connecting was given up: %v", err)
			}
			return connects, nil
		}
		f := func(int) (int, func(), error) {
			calls++
			return calls, nil, nil
		}
		_, err := Take(within(t, time.Second), turn, "store", "host:1", slow, f)
		wantError(t, err, "no connection to host:1 yet")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if calls != 0 || len(turn) != 0 {
			t.Errorf("%d calls were sent, and the turn has %d", calls, len(turn))
		}
		refused := errors.New("refused")
		no := func(context.Context) (int, error) { return 0, refused }
		if _, err := Take(t.Context(), turn, "store", "host:1", no, f); err != refused || calls != 0 {
			t.Error(err, calls)
		}
		if v, err := Take(t.Context(), turn, "store", "host:1", slow, f); v != 1 || err != nil || connects != 2 {
			t.Error(v, err, connects)
		}
	})
}
