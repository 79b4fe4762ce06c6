package issuer

import (
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// perLoop keeps what is made once for each event loop.
type perLoop struct {
	seed    seeder
	mu      sync.Mutex
	sources map[int]id.Source
}

func (p *perLoop) get(loop int, create func() id.Source) id.Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.sources[loop]
	if !ok {
		if p.sources == nil {
			p.sources = make(map[int]id.Source)
		}
		s = create()
		p.sources[loop] = s
	}
	return s
}

// uuid4 is the kind of UUIDs of version 4.
type uuid4 struct{ perLoop }

func newUUID4() Kind { return &uuid4{perLoop: perLoop{seed: kernelSeed}} }

// Ready implements Kind.
func (k *uuid4) Ready(int64) error { return nil }

// Source implements Kind.
func (k *uuid4) Source(loop int) id.Source {
	return k.get(loop, func() id.Source { return &uuid4Source{newRandom(k.seed)} })
}

type uuid4Source struct{ random *random }

// Form implements id.Texter.
func (s *uuid4Source) Form() id.Form { return id.UUID }

// Mint implements id.Source. It issues one id, and never refuses.
func (s *uuid4Source) Mint(when id.When, _ int, _ bool) (id.Run, error) {
	return generator.UUID4(s.random.two(when.Now)), nil
}

// A text is a kind whose ids are made of the ids of the lanes.
type text struct {
	perLoop
	is     *Issuer
	layout generator.TextLayout
}

func newText(is *Issuer, k generator.TextKind, seed seeder) (Kind, error) {
	l, err := generator.NewTextLayout(k, is.c.Layout)
	if err != nil {
		return nil, err
	}
	return &text{perLoop: perLoop{seed: seed}, is: is, layout: l}, nil
}

// Ready implements Kind.
func (k *text) Ready(now int64) error {
	if k.layout.CheckTime(now) != nil {
		return k.ended()
	}
	return k.is.Ready(now)
}

func (k *text) ended() *Refusal {
	return &Refusal{TimeFieldEnd,
		"the time field of " + k.layout.Kind().String() + " ended " +
			time.UnixMilli(k.layout.End()).UTC().Format(time.DateOnly)}
}

// Source implements Kind.
func (k *text) Source(loop int) id.Source {
	return k.get(loop, func() id.Source {
		return &textSource{kind: k, lanes: k.is.source(loop), random: newRandom(k.seed)}
	})
}

type textSource struct {
	kind   *text
	lanes  *source
	random *random
}

// Form implements id.Texter.
func (s *textSource) Form() id.Form { return s.kind.layout.Kind().Form() }

// Mint implements id.Source. It issues one id. Errors are those of the lanes.
func (s *textSource) Mint(when id.When, _ int, bulk bool) (id.Run, error) {
	run, err := s.lanes.Mint(when, 1, bulk)
	if err != nil {
		return id.Run{}, err
	}
	if !s.kind.layout.Fits(run.First) { // no client gets the number
		s.kind.is.refused[TimeFieldEnd].Add(1)
		return id.Run{}, s.kind.ended()
	}
	return s.kind.layout.Make(run.First, s.random.one(when.Now)), nil
}
