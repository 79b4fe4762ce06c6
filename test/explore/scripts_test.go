package explore

import (
	"errors"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/scripted"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// The world of Redis with the scripts themselves in place of their model: one fault of every kind, and with
// KATSUBUSHI_SOAK=1 two of some. It has as many points and states as with the model, so the two are the same there.
func TestEveryScheduleOfTheScripts(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("run without the race detector: it is one goroutine")
	}
	db := redistest.Start(t).Client()
	over := func(s *redismodel.Server, c script.Call, now int64) (any, error) {
		answer, err := scripted.New(db, "explored").Carry(s, c, now)
		if err != nil && !errors.As(err, &script.Refusal{}) {
			t.Fatal(err)
		}
		return answer, err
	}
	bounds := []Bound{{Faults: 1}}
	if soak {
		bounds = append(bounds, Bound{Faults: 2, Kinds: []Kind{Pause, Wipe, Stop}})
	}
	for _, b := range bounds {
		model := setting{start: Redis(false), time: redisTime}
		real := setting{start: redisOver(over, false), time: redisTime}
		want, r := model.explore(t, "", Explorer{Bound: b}), real.explore(t, "", Explorer{Bound: b})
		if r.Err != nil || !r.Complete || r.Points != want.Points || r.States != want.States {
			t.Errorf("%+v, and with the model %+v", r, want)
		}
	}
}
