package redismodel_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/scripted"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

const steps = 1500 // of each random history

// The model and a real Redis are told the same and must answer the same and keep the same, whatever
// happens.
func TestConformance(t *testing.T) {
	t.Parallel()
	server, reached := redistest.Start(t), map[string]int{}
	for seed := range uint64(12) {
		h := &history{T: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: 1893456000000, reached: reached}
		h.real = scripted.New(server.Client(), fmt.Sprint("seed", seed))
		if seed%3 == 0 { // a pool of yaraus's
			h.model.Keys.IDs = map[uint64]float64{8: 0, 9: 1893456600.123456, 10: 1893455000, 11: 0}
			h.model.Keys.Clients = map[uint64]string{9: "yaraus", 10: "yaraus"}
			h.model.Keys.Stats = map[string]int64{"min": 8, "max": 11, "get_id_count": 3}
			h.write()
		}
		h.run()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(reached)
	for _, what := range outcomes {
		if reached[what] == 0 {
			t.Errorf("%s was not reached", what)
		}
	}
}

// outcomes is what the histories must come to, or they would prove little.
var outcomes = []string{
	"acquired", "acquired again", "extended", "reclaimed", "released", "LOST", "CLONED", "NOID", "NOINIT", "SKEW", "CLOCK",
	"FOREIGN", "NOTMASTER",
	"REPLICAS", "HELD", "JUMP", "after a jump", "STEADY", "reset",
	"made", "waiting", "adopted", "migrated", "present",
}

type history struct {
	*testing.T
	rnd        *rand.Rand
	real       *scripted.Pool
	model      redismodel.Server
	now        int64
	daemons    [4]daemon
	late       []script.Call     // calls that may be carried out again, or for the first time
	old        []redismodel.Keys // snapshots
	requestIDs int
	log        []string
	reached    map[string]int
}

// A daemon holds some worker ids.
type daemon struct {
	memory script.Memory
	held   []workerid.Grant
}

func (h *history) run() {
	h.model.Run, h.model.Replid = "aa", "bb"
	h.call(script.Init{Terms: h.terms(), Now: h.now, RequestID: h.requestID(), How: script.InitNew})
	for i := range steps {
		what := h.step()
		h.log = append(h.log, fmt.Sprintf("%d: %s", i, what))
		h.compareKeys()
		if h.Failed() {
			for _, line := range h.log[max(0, len(h.log)-12):] {
				h.Log(line)
			}
			return
		}
	}
}

func (h *history) terms() script.Terms {
	t := script.Terms{Fingerprint: "f", Lease: 60000, MaxLease: 60000, MaxSkew: 2000, Epsilon: 5000, Min: 8, Max: 11}
	switch h.rnd.IntN(60) {
	case 0:
		t.Fingerprint = "other"
	case 1:
		t.Replicas = 1
	case 2:
		t.MaxLease = 1800000
	}
	return t
}

func (h *history) operator() script.Terms {
	t := redismodel.Operator(h.terms())
	t.MaxLease = h.either(0, 1800000)
	t.Epsilon = h.either(5000, 1000, 9000)
	return t
}

func (h *history) requestID() string {
	h.requestIDs++
	return fmt.Sprint("t", h.requestIDs)
}

// clock is a daemon's, rarely too far off.
func (h *history) clock() int64 {
	return h.now + h.either(h.rnd.Int64N(3900)-1950, 2000, -2000, 2001, -2001)
}

// either is mostly the first, else one of the others, which lie on the edge of something.
func (h *history) either(mostly int64, edges ...int64) int64 {
	if h.rnd.IntN(20) > 0 {
		return mostly
	}
	return edges[h.rnd.IntN(len(edges))]
}

func (h *history) step() string {
	d := &h.daemons[h.rnd.IntN(len(h.daemons))]
	switch k := h.rnd.IntN(100); {
	case k < 25:
		return h.acquire(d)
	case k < 62:
		return h.extend(d)
	case k < 67:
		return h.release(d)
	case k < 72 && len(h.late) > 0:
		c := h.late[h.rnd.IntN(len(h.late))]
		h.call(c)
		return fmt.Sprintf("late %+v", c)
	case k < 94:
		h.now += h.rnd.Int64N(1 + []int64{10, 5000, 30000, 90000}[h.rnd.IntN(4)])
		if jump := h.model.Keys.Meta.Jump; jump != 0 {
			h.now = h.either(h.now, jump-1, jump+49999, jump+50000)
		}
		return fmt.Sprint("now it is ", h.now)
	case k < 95:
		h.now = h.either(h.now-h.rnd.Int64N(3000), h.model.Keys.Meta.Seen-2000, h.model.Keys.Meta.Seen-2001)
		return fmt.Sprint("the clock goes back to ", h.now)
	case h.model.Keys.Meta.Seen-h.now > 2000 && k < 96:
		return h.operate()
	case k < 97:
		return h.change()
	case k < 98:
		return h.damage(d)
	default:
		h.model.Replica = false
		return h.operate()
	}
}

func (h *history) acquire(d *daemon) string {
	c := d.memory.Acquiring(script.Acquire{
		Terms: h.terms(), Now: h.clock(), RequestID: h.requestID(), Owner: fmt.Sprint("daemon", h.rnd.IntN(3)), From: 8,
		To: 11 - uint64(h.rnd.IntN(2)), Init: h.rnd.IntN(50) == 0,
	})
	h.late = append(h.late, c)
	before, jump := maps.Clone(h.model.Keys.HighWater), h.model.Keys.Meta.Jump
	v, err := h.call(c)
	if err == nil && jump != 0 {
		h.reached["after a jump"]++
	}
	if err != nil {
		if h.rnd.IntN(2) == 0 {
			d.memory.NotAcquired(c)
		}
	} else if h.rnd.IntN(4) > 0 {
		r := v.(script.Acquired)
		d.memory.Acquired(c, r)
		d.held = append(d.held, workerid.Grant{Worker: r.Worker, Owner: c.Owner, Lo: r.Lo, Hi: max(r.Hi, r.Lo-1)})
		h.reached["acquired"]++
		if slices.Contains(c.Known, before[r.Worker].RequestID) {
			h.reached["acquired again"]++
		}
	}
	return fmt.Sprintf("%+v: %+v, %v", c, v, err)
}

func (h *history) extend(d *daemon) string {
	if len(d.held) == 0 {
		return "nothing to extend"
	}
	before := h.model.Keys.Meta.Incarnation
	c := d.memory.Extending(script.Extend{Terms: h.terms(), Now: h.clock(), RequestID: h.requestID()}, d.held)
	h.late = append(h.late, c)
	v, err := h.call(c)
	if err != nil {
		if h.rnd.IntN(2) == 0 {
			d.memory.NotExtended(c)
		}
		return fmt.Sprintf("%+v: %v", c, err)
	}
	if r := v.(script.Extended); h.rnd.IntN(4) > 0 {
		d.memory.Extended(c, r)
		d.memory.Heard(c, r)
		var held []workerid.Grant
		for i, g := range d.held {
			switch {
			case r.Results[i].Err == nil:
				g.Hi = max(g.Hi, r.Results[i].Grant.Hi)
				held = append(held, g)
				h.reached["extended"]++
				if before != r.Incarnation {
					h.reached["reclaimed"]++
				}
			case errors.Is(r.Results[i].Err, workerid.ErrCloned):
				h.reached["CLONED"]++
			default:
				h.reached["LOST"]++
			}
		}
		d.held = held
	}
	return fmt.Sprintf("%+v: %+v", c, v)
}

func (h *history) release(d *daemon) string {
	if len(d.held) == 0 {
		return "nothing to release"
	}
	g := d.held[0]
	d.held = d.held[1:]
	last := g.Lo - 2 + h.rnd.Int64N(g.Hi-g.Lo+5)
	if h.rnd.IntN(2) == 0 {
		last = h.either(g.Hi, g.Lo-2, g.Lo-1, g.Hi+1)
	}
	c := d.memory.Releasing(script.Release{Terms: h.terms(), Now: h.clock(), RequestID: h.requestID(), Grant: g,
		Last: max(0, last)})
	h.late = append(h.late, c)
	v, err := h.call(c)
	if err == nil {
		h.reached["released"]++
	}
	return fmt.Sprintf("%+v: %+v, %v", c, v, err)
}

// change is what happens to servers and their clients.
func (h *history) change() string {
	switch h.rnd.IntN(8) {
	case 0:
		h.model.Run, h.model.Replid = fmt.Sprintf("%x", h.rnd.IntN(3)), fmt.Sprintf("%x", h.rnd.IntN(3))
	case 1:
		h.model.Replid = fmt.Sprintf("%x", h.rnd.IntN(3))
	case 2:
		h.model.Replica = true
	case 3:
		h.model.Online = h.rnd.IntN(3)
	case 4: // a copy of a process
		i, j := h.rnd.IntN(len(h.daemons)), h.rnd.IntN(len(h.daemons))
		h.daemons[i] = daemon{*copied.Of(&h.daemons[j].memory), append([]workerid.Grant(nil), h.daemons[j].held...)}
	case 5: // a fail-over that lost writes, or old keys put back
		if len(h.old) > 0 {
			h.model.Keys = h.old[h.rnd.IntN(len(h.old))].Clone()
			h.write()
		}
	default:
		h.model.Replica = false
		h.old = append(h.old, h.model.Keys.Clone())
		h.old = h.old[max(0, len(h.old)-5):]
	}
	return fmt.Sprintf("now the server is %s:%s, replica %v, online %d", h.model.Run, h.model.Replid, h.model.Replica,
		h.model.Online)
}

// damage is what happens to keys.
func (h *history) damage(d *daemon) string {
	k, w := &h.model.Keys, uint64(8+h.rnd.IntN(4))
	what := ""
	switch h.rnd.IntN(9) {
	case 0:
		*k, what = redismodel.Keys{}, "everything"
	case 1:
		k.HighWater, what = nil, "hw"
	case 2:
		k.Clients, what = nil, "clients"
	case 3:
		k.Meta, what = redismodel.Meta{}, "meta"
	case 4:
		k.IDs, what = nil, "ids"
	case 5:
		delete(k.HighWater, w)
		what = fmt.Sprint("the record of ", w)
	case 6: // a yaraus client gets a worker id
		if k.IDs[w] != 0 && k.IDs[w] < float64(h.now)/1000 {
			k.IDs[w], k.Clients[w] = float64(h.now)/1000+1800.000123, "yaraus"
		}
		what = "yaraus"
	case 7: // nothing of ours is left
		k.Meta, k.HighWater, what = redismodel.Meta{}, nil, "meta and hw"
	case 8:
		d.memory, what = script.Memory{}, "a memory"
	}
	h.write()
	return "lost: " + what
}

func (h *history) operate() string {
	var c script.Call
	n := h.rnd.IntN(6)
	if h.model.Keys.Meta.Seen-h.now > 2000 {
		n = 1
	}
	switch n {
	case 0:
		c = script.Free{Terms: h.operator(), Now: h.clock(), RequestID: h.requestID(), Worker: uint64(8 + h.rnd.IntN(5))}
	case 1:
		c = script.ResetClock{Terms: h.operator(), Now: h.clock(), RequestID: h.requestID(), Unsure: 30000}
	case 2:
		c = script.SetReplicas{Terms: h.operator(), Number: h.rnd.IntN(3) - 1}
	default:
		t := h.terms()
		t.Replicas = -1
		how := []string{script.InitNew, script.InitNew, script.InitWait, script.InitReplace,
			script.InitMigrated}[h.rnd.IntN(5)]
		c = script.Init{Terms: t, Now: h.clock(), RequestID: h.requestID(), How: how}
	}
	v, err := h.call(c)
	return fmt.Sprintf("%+v: %+v, %v", c, v, err)
}

// call lets both carry out a call, compares the answers and returns them.
func (h *history) call(c script.Call) (any, error) {
	h.Helper()
	want, wantErr := h.model.Carry(c, h.now)
	got, gotErr := h.real.Call(&h.model, c, h.now)
	if !reflect.DeepEqual(want, got) || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
		h.Errorf("%T %+v\nmodel: %+v, %v\nRedis: %+v, %v", c, c, want, wantErr, got, gotErr)
	}
	var r script.Refusal
	if errors.As(wantErr, &r) {
		h.reached[r.Code]++
	}
	switch v := want.(type) {
	case string:
		h.reached[v]++
	case script.ClockReset:
		h.reached["reset"]++
	}
	return want, wantErr
}

// compareKeys compares what the model and Redis keep.
func (h *history) compareKeys() {
	h.Helper()
	got, err := h.real.Read()
	if err != nil {
		h.Fatal(err)
	}
	want := h.model.Keys
	same := maps.Equal(got.IDs, want.IDs) && maps.Equal(got.Clients, want.Clients) && maps.Equal(got.Stats, want.Stats) &&
		maps.Equal(got.HighWater, want.HighWater) && got.Meta == want.Meta
	if !same {
		h.Errorf("model: %+v\nRedis: %+v", want, got)
	}
}

// write puts the model's keys into Redis.
func (h *history) write() {
	h.Helper()
	if err := h.real.Write(h.model.Keys); err != nil {
		h.Fatal(err)
	}
}
