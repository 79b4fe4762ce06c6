package explore

import (
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// Now implements World.
func (w *files) Now() int64 { return w.now }

// serves says whether a process may issue ids now.
func (w *files) serves() bool {
	return slices.ContainsFunc(w.windows, func(x window) bool {
		return x.daemon >= 0 && x.hi >= w.clock(w.daemons[x.daemon])
	})
}

// Digest implements World.
func (w *files) Digest() uint64 {
	v := fileDigest{digest{now: began + w.now, boot: w.now - w.booted, seen: make([]string, 0, 32)}, w}
	d := &v.digest
	d.Number(w.wall)
	d.Name(bootNames[w.boots])
	w.disk.visit(d)
	for _, all := range append(w.past[:], w.pages) {
		for _, x := range all {
			x.visit(d)
		}
	}
	visitWindows(w.windows, d)
	if w.kept != nil {
		d.copies(w.kept.copies)
		d.copies(w.kept.shared[:]...)
		d.Number(flags(w.kept.moved))
	}
	for _, p := range w.daemons {
		p.visit(&v)
	}
	return d.h
}

func (x *page) visit(d *digest) {
	if x.gone && x.daemon < 0 {
		return
	}
	d.names(x.id, x.nonce)
	d.times(fileLayout.Issued(x.word), x.issued)
	d.numbers(int64(x.daemon), flags(x.gone || x.changed))
}

func (p *process) visit(v *fileDigest) {
	d, now := &v.digest, v.w.now
	d.Number(p.at() - now)
	if p.store == nil && p.during == nil {
		return
	}
	d.numbers(p.due-now, p.stop-now, p.clock)
	d.times(p.grant.Lo, p.grant.Hi)
	if p.store != nil {
		p.store.Visit(v)
	}
	if u := p.during; u != nil {
		d.Number(int64(len(u.told)))
		for _, a := range u.told {
			a.visit(v)
		}
		if u.ends {
			d.Time(u.last)
		}
		d.Time(u.grant.Hi)
	}
}

func (a *answered) visit(v *fileDigest) {
	d := &v.digest
	if d.Number(flags(a.err != nil, a.yes)); a.fd != 0 {
		v.File(handle{nil, a.fd})
	}
	d.copies(a.slots)
	d.names(a.page.id, a.text)
	if a.now != 0 {
		d.Time(a.now)
	}
	if a.clocks.Wall != 0 {
		d.Time(a.clocks.Wall)
		d.Boot(time.Duration(a.clocks.Boot) * time.Millisecond)
	}
}

// A fileDigest is a digest that knows files.
type fileDigest struct {
	digest
	w *files
}

// File implements static.Visitor.
func (v *fileDigest) File(f static.File) {
	h, ok := f.(handle)
	if !ok {
		v.Number(-8)
		return
	}
	n, x := v.w.disk.inode(h.fd)
	v.Number(int64(n))
	if x != nil && x.holder == h.fd {
		v.Number(-9)
	}
}

// Say implements World.
func (w *files) Say(c Choice) string {
	i := w.first()
	p := w.daemons[i]
	what := "extends its window"
	switch {
	case p.during != nil && p.during.ends || p.store != nil && p.stop <= max(w.now, p.at()):
		what = "is stopped cleanly"
	case p.store == nil:
		what = "starts"
	case p.grant.Owner == "":
		what = "asks for a window"
	}
	if p.during != nil {
		what += ", the rest of it"
	}
	return say("files", c, "CALL", "process "+p.name+" "+what, "REQUEST", place(c)+" at the disk or in memory",
		"SPAN", span(pauses[c.Arg%2]), "JUMP", span(jumps[c.Arg%3]))
}
