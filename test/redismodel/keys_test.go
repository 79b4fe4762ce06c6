package redismodel_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// compareKeys compares what the model and Redis keep.
func (h *history) compareKeys() {
	h.Helper()
	got, want := h.read(), h.model.Keys
	same := maps.Equal(got.IDs, want.IDs) && maps.Equal(got.Clients, want.Clients) && maps.Equal(got.Stats, want.Stats) &&
		maps.Equal(got.HighWater, want.HighWater) && got.Meta == want.Meta
	if !same {
		h.Errorf("model: %+v\nRedis: %+v", want, got)
	}
}

// read is Redis's keys in the model's form.
func (h *history) read() (k redismodel.Keys) {
	h.Helper()
	ctx := context.Background()
	k = redismodel.Keys{IDs: map[uint64]float64{}, Clients: map[uint64]string{}, Stats: map[string]int64{},
		HighWater: map[uint64]redismodel.Record{}}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil && s != "" {
			h.Error(err)
		}
		return n
	}
	worker := func(m string) uint64 {
		w, err := script.ParseMember(m)
		if err != nil {
			h.Error(err)
		}
		return w
	}
	p := h.real.Pipeline()
	ids := p.ZRangeWithScores(ctx, h.keys[0], 0, -1)
	var hashes [4]*goredis.MapStringStringCmd
	for i := range hashes {
		hashes[i] = p.HGetAll(ctx, h.keys[i+1])
	}
	if _, err := p.Exec(ctx); err != nil {
		h.Fatal(err)
	}
	for _, z := range ids.Val() {
		k.IDs[worker(z.Member.(string))] = z.Score
	}
	for m, owner := range hashes[0].Val() {
		k.Clients[worker(m)] = owner
	}
	for name, n := range hashes[1].Val() {
		k.Stats[name] = number(n)
	}
	for m, s := range hashes[2].Val() {
		mark, requestID, lo, err := script.ParseRecord(s)
		if err != nil {
			h.Error(err)
		}
		k.HighWater[worker(m)] = redismodel.Record{HighWater: mark, RequestID: requestID, Lo: lo}
	}
	m := hashes[3].Val()
	k.Meta = redismodel.Meta{
		Incarnation: m["hist"], Seen: number(m["seen"]), Floor: number(m["floor"]), Lmax: number(m["lmax"]),
		Eps: number(m["eps"]), Fingerprint: m["fingerprint"],
		Replicas: m["replicas"], Yaraus: m["yaraus"] == "1", Jump: number(m["jump"]),
	}
	return k
}

// write puts the model's keys into Redis.
func (h *history) write() {
	ctx, k := context.Background(), h.model.Keys
	p := h.real.Pipeline()
	p.Del(ctx, h.keys...)
	for w, s := range k.IDs {
		p.Do(ctx, "ZADD", h.keys[0], strconv.FormatFloat(s, 'g', 17, 64), script.Member(w))
	}
	for w, owner := range k.Clients {
		p.HSet(ctx, h.keys[1], script.Member(w), owner)
	}
	for name, n := range k.Stats {
		p.HSet(ctx, h.keys[2], name, n)
	}
	for w, r := range k.HighWater {
		p.HSet(ctx, h.keys[3], script.Member(w), fmt.Sprintf("%d %s %d", r.HighWater, r.RequestID, r.Lo))
	}
	if m := k.Meta; m != (redismodel.Meta{}) {
		if m.Incarnation != "" {
			p.HSet(ctx, h.keys[4], "hist", m.Incarnation)
		}
		p.HSet(ctx, h.keys[4], "seen", m.Seen, "floor", m.Floor, "lmax", m.Lmax, "eps", m.Eps, "yaraus",
			map[bool]string{true: "1", false: "0"}[m.Yaraus])
		if m.Fingerprint != "" {
			p.HSet(ctx, h.keys[4], "fingerprint", m.Fingerprint)
		}
		if m.Jump != 0 {
			p.HSet(ctx, h.keys[4], "jump", m.Jump)
		}
		if m.Replicas != "" {
			p.HSet(ctx, h.keys[4], "replicas", m.Replicas)
		}
	}
	if _, err := p.Exec(ctx); err != nil {
		h.Error(err)
	}
}
