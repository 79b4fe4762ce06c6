package explore

import (
	"errors"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/scripted"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// scripts are those that ship, in a real Redis. Its methods are those of the model.
type scripts struct {
	*redismodel.Server
	t    *testing.T
	pool *scripted.Pool
}

// run carries out a script on the server's keys.
func run[T any](s scripts, c script.Call, now int64) (v T, err error) {
	answer, err := s.pool.Carry(s.Server, c, now)
	switch {
	case err == nil:
		return answer.(T), nil
	case !errors.As(err, &script.Refusal{}):
		s.t.Fatal(err)
	}
	return v, err
}

func (s scripts) Acquire(c script.Acquire, now int64) (script.Acquired, error) {
	return run[script.Acquired](s, c, now)
}

func (s scripts) Extend(c script.Extend, now int64) (script.Extended, error) {
	return run[script.Extended](s, c, now)
}

func (s scripts) Release(c script.Release, now int64) (script.Server, error) {
	return run[script.Server](s, c, now)
}

func (s scripts) Free(c script.Free, now int64) (script.Freed, error) {
	return run[script.Freed](s, c, now)
}

func (s scripts) Init(c script.Init, now int64) (string, error) {
	return run[string](s, c, now)
}

// The world of Redis with the scripts themselves in place of their model: one fault of every kind, and with
// KATSUBUSHI_SOAK=1 two of some. It has as many points and states as with the model, so the two are the same there.
func TestEveryScheduleOfTheScripts(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("run without the race detector: it is one goroutine")
	}
	db := redistest.Start(t).Client()
	over := func(s *redismodel.Server) redisPool { return scripts{s, t, scripted.New(db, "explored")} }
	bounds := []Bound{single}
	if soak {
		bounds = append(bounds, Bound{Faults: 2, Kinds: []Kind{Pause, Wipe, Stop}})
	}
	for _, b := range bounds {
		model := setting{start: func(m string) World { return Redis(false, m) }, time: redisTime}
		real := setting{start: func(m string) World { return redisOver(over, false, m) }, time: redisTime}
		want, r := model.explore(t, "", Explorer{Bound: b}), real.explore(t, "", Explorer{Bound: b})
		if r.Err != nil || !r.Complete || r.Points != want.Points || r.States != want.States {
			t.Errorf("%+v, and with the model %+v", r, want)
		}
	}
}
