package resp

import "github.com/katsubushi/katsubushi/v3/protocol"

// Between MULTI and EXEC the session answers commands with QUEUED and leaves their bytes with the
// caller, who holds unconsumed input anyway, and limits what all connections hold together. EXEC goes
// back to the first of them. So a transaction takes no memory here, and parking half-way through one
// is parking half-way through the input.

// enqueue answers a command of a transaction.
func (s *Session) enqueue(t *turn, in []byte) (int, error) {
	q := int(s.queued)
	if q >= len(in) {
		return 0, nil
	}
	a, n, err := s.next(t, in[q:])
	switch {
	case err != nil:
		return len(in), err
	case n == 0:
		return 0, nil
	case a.n == 0:
		return s.hold(n), nil
	}
	e, ok := s.admit(t, a)
	if e == nil {
		return len(in), s.hangUp()
	}
	switch {
	case !ok && e.name == "exec":
		return s.endTransaction(n), nil
	case !ok:
		return s.spoil(n), nil
	}
	switch e.name {
	case "multi":
		t.blame("ERR MULTI calls can not be nested")
	case "watch":
		t.blame("ERR WATCH inside MULTI is not allowed")
	case "exec":
		return s.exec(t, n), nil
	case "discard":
		t.ok()
		return s.endTransaction(n), nil
	case "quit", "reset":
		n = s.endTransaction(n)
		t.Add(e.kind, 1)
		a.next()
		return s.act(t, e, a, n)
	default:
		args := a
		args.next()
		if s.turnsAway(t, e, args) {
			t.Add(e.kind, 1)
			return s.spoil(n), nil
		}
		if s.is&broken == 0 {
			if q+n > maxCommand || s.commands == maxTransaction {
				t.Add(protocol.TooLong, 1)
				t.fail(errTooMuch, "")
				return s.spoil(n), nil
			}
			s.commands++
		}
		t.Say("+QUEUED\r\n")
		return s.hold(n), nil
	}
	t.Add(e.kind, 1)
	return s.hold(n), nil
}

// hold leaves a command of n bytes with the caller, unless EXEC will not run it. It returns how many
// bytes are consumed.
func (s *Session) hold(n int) int {
	if s.is&broken == 0 && int(s.queued)+n > 2*maxCommand {
		return s.spoil(n) // commands that are answered at once, and ignored ones
	}
	if s.is&broken != 0 {
		return n
	}
	s.queued += uint32(n)
	return 0
}

// spoil makes EXEC refuse the transaction. What was queued is consumed, together with the command of
// n bytes.
func (s *Session) spoil(n int) int {
	n += int(s.queued)
	s.is |= broken
	s.queued, s.commands = 0, 0
	return n
}

// endTransaction forgets the transaction, and consumes it together with the command of n bytes.
func (s *Session) endTransaction(n int) int {
	n += int(s.queued)
	s.is &^= multi | broken
	s.queued, s.commands = 0, 0
	return n
}

// exec begins to run a transaction; n is the length of EXEC.
func (s *Session) exec(t *turn, n int) int {
	t.Add(protocol.CmdOther, 1)
	if s.is&broken != 0 {
		t.blame(errAborted)
		return s.endTransaction(n)
	}
	t.array(int(s.commands))
	s.queued += uint32(n)
	s.is = s.is&^multi | executing
	return 0
}

// run runs the next command of a transaction, or the next piece of it.
func (s *Session) run(t *turn, in []byte) (n int, err error) {
	if len(in) < int(s.queued) {
		return 0, nil
	}
	in = in[:s.queued]
	defer func() { s.queued -= uint32(n) }()
	switch {
	case s.state == keys:
		return s.moreKeys(t, in)
	case s.commands == 0 || len(in) == 0: // only commands that were answered are left, and EXEC
		s.is &^= executing
		return len(in), nil
	}
	a, n, err := s.next(t, in)
	switch {
	case n == 0: // see Resume
		_, n, err = s.malformed(t, in, "invalid state")
		return n, err
	case err != nil || a.n == 0:
		return n, err
	}
	name := a
	if e := find(name.next()); e != nil && (e.name == "multi" || e.name == "watch") {
		return n, nil
	}
	n, err = s.execute(t, a, n)
	if n > 0 {
		s.commands--
	}
	return n, err
}
