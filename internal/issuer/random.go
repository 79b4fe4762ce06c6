package issuer

import (
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
)

// random is a ChaCha8 generator that is seeded by the kernel. It is locked, because HTTP and engines
// without event loops call a source from several goroutines. One loop alone pays 10 ns for the lock.
//
// It takes a new seed every second. So when a virtual machine is copied while it runs, both copies make
// the same random bits for at most a second.
type random struct {
	mu      sync.Mutex
	chacha  *rand.ChaCha8
	expires int64 // Unix ms
	seed    seeder
}

// A seeder fills a seed. It is the kernel's, or that of a test.
type seeder func(*[32]byte)

func kernelSeed(seed *[32]byte) {
	_, _ = crand.Read(seed[:]) // it crashes the program if the kernel gives nothing; it never returns an error
}

const seedLife = 1000 // ms

func newRandom(seed seeder) *random {
	r := &random{seed: seed}
	var s [32]byte
	seed(&s)
	r.chacha = rand.NewChaCha8(s)
	return r
}

// one returns 64 random bits. now is the present, Unix ms.
func (r *random) one(now int64) uint64 {
	r.mu.Lock()
	r.refresh(now)
	a := r.chacha.Uint64()
	r.mu.Unlock()
	return a
}

// two returns 128 random bits.
func (r *random) two(now int64) (a, b uint64) {
	r.mu.Lock()
	r.refresh(now)
	a, b = r.chacha.Uint64(), r.chacha.Uint64()
	r.mu.Unlock()
	return a, b
}

func (r *random) refresh(now int64) {
	if left := r.expires - now; left > 0 && left <= seedLife {
		return
	}
	var s [32]byte
	r.seed(&s)
	r.chacha.Seed(s)
	r.expires = now + seedLife
}
