package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// The size of a block. A Machine aims at one reservation every ten seconds: fewer spare the store,
// and smaller blocks lose less in a crash.
const (
	span       = 10 * time.Second
	firstBlock = 100 // small, so that a daemon that is restarted in a loop loses little
	minBlock   = 100
	maxBlock   = MaxBatch
	growth     = 4    // a block is at most so many times the last one,
	shrink     = 2    // and at least so large a part of it
	endShare   = 1000 // a block has at most this part of the values that are left, but at least minBlock
)

// How long a Machine waits before it asks a Store again that failed: minRetry at first, twice as long
// each time, up to maxRetry. After a certain error only an operator can help, and then Learn does
// not wait.
const (
	minRetry     = 50 * time.Millisecond
	maxRetry     = time.Second
	certainRetry = 10 * time.Second
)

// warnAt is the share of a sequence's values, in percent, at which a Machine warns that it will end.
var warnAt = [...]uint64{80, 90, 95, 99}

// An Issuer issues the values of one sequence to clients. Any goroutine may call it.
type Issuer interface {
	// Append adds a block that the store has granted. After an error the block is not used.
	Append(lo, hi uint64) error
	// Raise drops all values below atLeast, also of blocks still to come.
	Raise(atLeast uint64)
	// Refuse says why there is no further block, to be told to clients once all values at hand are
	// gone; nil means that there is no reason.
	Refuse(why error)
	// Left returns how many values are at hand, and how many in a row a client waits for; 0 =
	// no client waits.
	Left() (left, short uint64)
	// Seal stops the issuer for good. rest values from next on are left at the end of the last block,
	// and were never issued.
	Seal() (next, rest uint64)
}

// A Machine decides for one sequence when to reserve a block, and how large a one. It does no I/O and
// reads no clock: its driver, a Keeper or a simulation, calls the Store. Only one goroutine at
// a time may call its methods.
type Machine struct {
	def Definition
	to  Issuer
	log *slog.Logger

	last    Block     // the newest that was granted
	next    uint64    // the value after it; before there is one, the record's
	asked   uint64    // the size of the block under way
	size    uint64    // the size that was chosen for the newest block; 0 = there was none
	block   uint64    // values in it; the store may grant fewer than were asked for
	held    uint64    // values at hand just after the newest block was added
	at      time.Time // when that was
	rate    float64   // values a second, of the newest block but one
	used    float64   // values that were used, until at, each counted less the longer that is ago: see DaysLeft
	floor   uint64
	warned  int  // how many of warnAt were reached
	failed  int  // reservations in a row
	dry     bool // it was logged that nothing is left
	retry   time.Time
	calling bool
	closed  bool
	faulty  bool   // the record cannot be used, see Record.Fault
	term    string // of timestamps: names this Machine in the record
}

// NewMachine makes the Machine of a sequence whose record a Store returned. batch, if it is not 0,
// replaces the definition's.
func NewMachine(r Record, to Issuer, batch uint64, log *slog.Logger) *Machine {
	m := &Machine{def: r.Definition, to: to, log: log, next: r.Next, floor: r.Floor}
	if r.Timed() {
		m.term = rand.Text()
	}
	if batch != 0 {
		m.def.Batch = batch
	}
	if r.Retired {
		m.retire()
	}
	m.judge(r)
	return m
}

// judge refuses what cannot be used, and what has ended, before a client has asked for it. While Reserve is under way,
// the last values may be those that it brings.
func (m *Machine) judge(r Record) {
	switch left, _ := m.to.Left(); {
	case r.Fault != nil:
		m.to.Refuse(r.Fault)
	case left == 0 && !m.closed && !m.calling && m.def.Count(r.Next) == 0:
		m.to.Refuse(ErrEnded)
	case m.faulty:
		m.to.Refuse(nil)
	}
	m.faulty = r.Fault != nil
}

// Need returns how many values to reserve now, or 0. If it is not 0, Reserve is under way until
// Answer is called with its result. A sequence without clients reserves nothing.
func (m *Machine) Need(now time.Time) uint64 {
	if m.calling || m.closed || now.Before(m.retry) {
		return 0
	}
	left, short := m.to.Left()
	if m.def.Timed() {
		return m.needTimed(now, short)
	}
	if short == 0 && (m.size == 0 || left > m.block/2) {
		return 0
	}
	m.calling = true
	m.asked = m.nextSize(now, left, short > 0)
	return max(m.asked, short)
}

// nextSize returns the size of the next block.
func (m *Machine) nextSize(now time.Time, left uint64, waiting bool) uint64 {
	switch {
	case m.def.Batch != 0:
		m.measure(now, left)
		return m.def.Batch
	case m.size == 0:
		return firstBlock
	}
	m.measure(now, left)
	size := uint64(min(m.rate*span.Seconds(), maxBlock))
	size = min(max(size, m.size/shrink), m.size*growth)
	if waiting {
		size = m.size * growth
	}
	most := min(maxBlock, m.Remaining()/endShare)
	return max(min(size, most), minBlock)
}

// measure sets the rate at which values were used since the newest block was added.
func (m *Machine) measure(now time.Time, left uint64) {
	if m.size == 0 {
		return
	}
	elapsed := max(now.Sub(m.at), time.Millisecond)
	m.rate = float64(m.held-min(left, m.held)) / elapsed.Seconds()
}

// Answer takes the result of a Reserve. After wait, and also at once if that is 0, ask Need again.
func (m *Machine) Answer(now time.Time, b Block, err error) (wait time.Duration) {
	m.calling = false
	if err == nil {
		err = m.add(now, b)
	}
	if err == nil || m.closed {
		return 0
	}
	if errors.Is(err, ErrRetired) {
		m.retire()
		return 0
	}
	if m.failed == 0 {
		m.log.Warn("a sequence got no block", "sequence", m.def.Name, "error", err)
	}
	lasts := m.failed > 0 || Certain(err) // a process that hands over may keep a file for a moment
	if left, _ := m.to.Left(); left == 0 && !m.dry && lasts && !errors.Is(err, ErrDeposed) {
		m.dry = true
		m.log.Error("a sequence issues no values", "sequence", m.def.Name, "error", err)
	}
	m.to.Refuse(err)
	wait = maxRetry
	if Certain(err) {
		wait = certainRetry
	} else if m.failed < 5 {
		wait = min(maxRetry, minRetry<<m.failed)
	}
	m.failed++
	m.retry = now.Add(wait)
	return wait
}

// add gives a block to the issuer.
func (m *Machine) add(now time.Time, b Block) error {
	d := m.def
	if b.Lo > b.Hi || b.Hi > d.Max || b.Lo != d.Ceil(b.Lo) || b.Hi != d.Ceil(b.Hi) {
		return fmt.Errorf("the store granted %d to %d, which are no values of this sequence: its definition was changed",
			b.Lo, b.Hi)
	}
	m.last, m.next = b, b.Hi+d.Step
	left, _ := m.to.Left() // before clients take some of the block
	if err := m.to.Append(b.Lo, b.Hi); err != nil {
		return fmt.Errorf("the store granted %d to %d: %w", b.Lo, b.Hi, err)
	}
	if m.failed > 0 {
		level := slog.LevelInfo
		if m.dry { // it shows where the error does
			level = slog.LevelWarn
		}
		m.log.Log(context.Background(), level, "a sequence got a block again", "sequence", d.Name, "failures", m.failed)
	}
	m.failed, m.retry, m.dry = 0, time.Time{}, false
	m.to.Refuse(nil)
	if !d.Timed() {
		m.used = m.used*fading(now.Sub(m.at)) + float64(m.held-min(left, m.held))
	}
	m.size, m.block, m.at = m.asked, (b.Hi-b.Lo)/d.Step+1, now
	m.held = left + m.block
	m.warn()
	return nil
}

// warn logs that the sequence will end, when another one of warnAt is reached.
func (m *Machine) warn() {
	left, all := m.Remaining(), m.def.Count(m.def.First())
	reached := m.warned
	for reached < len(warnAt) && float64(left) <= float64(all)*float64(100-warnAt[reached])/100 {
		reached++
	}
	if reached == m.warned {
		return
	}
	m.warned = reached
	args := []any{"sequence", m.def.Name, "last", m.def.Last(), "left", left}
	if days := m.DaysLeft(m.at); !math.IsInf(days, 1) {
		args = append(args, "days_left", math.Floor(days*10)/10)
	}
	m.log.Warn(fmt.Sprintf("%d%% of a sequence's values are granted; it ends for good", warnAt[reached-1]), args...)
}

// Learn takes what the record of the sequence says now, because an operator may have raised or
// retired it. Ask Need afterwards.
func (m *Machine) Learn(r Record) {
	if r.Retired && !m.closed {
		m.retire()
	}
	if m.drop(r.Floor) && r.Fault == nil {
		m.log.Info("a sequence was raised", "sequence", m.def.Name, "at_least", r.Floor)
	}
	m.retry = time.Time{}
	m.judge(r)
}

// drop drops the values at hand below floor. It reports whether that is the highest floor so far.
func (m *Machine) drop(floor uint64) bool {
	if floor <= m.floor {
		return false
	}
	m.floor = floor
	m.to.Raise(floor)
	return true
}

// retire stops the issuer. Its values are lost.
func (m *Machine) retire() {
	m.closed = true
	m.to.Refuse(ErrRetired)
	m.to.Seal()
	m.log.Warn("a sequence is retired: it issues no more values", "sequence", m.def.Name)
}

// Stop seals the issuer. The first time, if the values from next on to the end of b were never
// issued, ok is true, and Store.Return may give them back. No Reserve may be under way.
func (m *Machine) Stop() (b Block, next uint64, ok bool) {
	retired := m.closed
	m.closed = true
	next, rest := m.to.Seal()
	ok = !retired && rest > 0 && next+(rest-1)*m.def.Step == m.last.Hi
	return m.last, next, ok
}

// Block returns how many values the newest block had.
func (m *Machine) Block() uint64 { return m.block }

// Remaining returns how many values of the sequence lie above the newest block. Other daemons may
// have some of them.
func (m *Machine) Remaining() uint64 { return m.def.Count(m.next) }

// memory is over how long the present rate is taken: what a burst used must not look as if it went on.
const memory = time.Hour

// fading returns for how much something counts after a time.
func fading(d time.Duration) float64 { return math.Exp(-d.Seconds() / memory.Seconds()) }

// DaysLeft returns how long the remaining values last at the rate of about the last hour; +Inf if there are some, and
// none was used of late.
func (m *Machine) DaysLeft(now time.Time) float64 {
	left, rate := m.Remaining(), m.used*fading(now.Sub(m.at))/memory.Seconds()
	switch {
	case left == 0:
		return 0
	case rate == 0:
		return math.Inf(1)
	}
	return float64(left) / rate / (24 * time.Hour).Seconds()
}
