package resp

import "strings"

// describe answers COMMAND for one entry. ACL categories, hints and key specifications are left
// out: the positions of the keys say it all.
func (s *Session) describe(t *turn, e *entry) {
	t.array(10)
	t.text(e.name)
	t.integer(int64(e.arity))
	s.set(t, len(strings.Fields(e.flags)))
	for flag := range strings.FieldsSeq(e.flags) {
		t.Say("+")
		t.Say(flag)
		t.Say("\r\n")
	}
	t.integer(int64(e.first))
	t.integer(int64(e.last))
	t.integer(int64(e.step))
	for range 3 {
		s.set(t, 0)
	}
	t.array(len(e.sub))
	for _, sub := range e.sub {
		s.describe(t, sub)
	}
}

// describeMany answers COMMAND INFO.
func (s *Session) describeMany(t *turn, a arguments) {
	if a.n == 0 {
		t.array(len(entries))
		for _, e := range entries {
			s.describe(t, e)
		}
		return
	}
	t.array(a.n)
	for a.n > 0 {
		if e := findAny(a.next()); e != nil {
			s.describe(t, e)
		} else {
			s.null(t)
		}
	}
}

// findAny finds an entry by its name, which of a subcommand is container|name; nil = none.
func findAny(name []byte) *entry {
	e := find(name)
	for i, c := range name {
		if c == '|' {
			if e = find(name[:i]); e != nil {
				e = e.findSub(name[i+1:])
			}
			break
		}
	}
	return e
}

// documentMany answers COMMAND DOCS.
func (s *Session) documentMany(t *turn, a arguments) {
	if a.n == 0 {
		s.pairs(t, len(entries))
		for _, e := range entries {
			s.document(t, e)
		}
		return
	}
	n := 0
	for b := a; b.n > 0; {
		if findAny(b.next()) != nil {
			n++
		}
	}
	s.pairs(t, n)
	for a.n > 0 {
		if e := findAny(a.next()); e != nil {
			s.document(t, e)
		}
	}
}

// document says what a command does.
func (s *Session) document(t *turn, e *entry) {
	n := 2
	if len(e.sub) > 0 {
		n++
	}
	t.text(e.name)
	s.pairs(t, n)
	t.text("summary")
	t.text(e.summary)
	t.text("group")
	t.text(e.group)
	if len(e.sub) > 0 {
		t.text("subcommands")
		s.pairs(t, len(e.sub))
		for _, sub := range e.sub {
			s.document(t, sub)
		}
	}
}

// keysOf answers COMMAND GETKEYS; a is a command.
func (t *turn) keysOf(a arguments) {
	n := a.n
	all := a
	name := a.next()
	e := find(name)
	if e != nil && len(e.sub) > 0 && n > 1 {
		e = e.findSub(a.next())
	}
	switch {
	case e == nil:
		t.blame("ERR Invalid command specified")
		return
	case e.first == 0:
		t.blame("ERR The command has no key arguments")
		return
	case !e.fits(n):
		t.blame("ERR Invalid number of arguments specified for command")
		return
	}
	last := e.last
	if last < 0 {
		last += n
	}
	t.array((last-e.first)/e.step + 1)
	for i := range last + 1 {
		if arg := all.next(); i >= e.first && (i-e.first)%e.step == 0 {
			t.bulk(arg)
		}
	}
}

// help answers the subcommand HELP of a container.
func (t *turn) help(e *entry) {
	name, _, _ := strings.Cut(e.name, "|")
	subs := commands[name].sub
	t.array(2*len(subs) + 1)
	t.Say("+")
	t.upper(name)
	t.Say(" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n")
	for _, sub := range subs {
		t.Say("+")
		t.upper(sub.name[len(name)+1:])
		t.Say("\r\n+    ")
		t.Say(sub.summary)
		t.Say("\r\n")
	}
}
