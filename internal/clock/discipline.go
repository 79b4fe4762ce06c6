package clock

import "time"

// The numbers in Discipline's rules.
const (
	Interval    = time.Second            // between two comparisons
	SlewBelow   = 500 * time.Millisecond // smaller differences are corrected gradually,
	SlewRate    = 5 * time.Millisecond   // by at most this at each comparison
	ForwardHold = 60 * time.Second       // a step forward is followed after it has lasted this long
	// sum of all steps forward, less the time for which the clocks agreed; beyond it a restart is
	// needed
	ForwardLimit = 24 * time.Hour
	noise        = time.Millisecond // smaller differences only mean that the clocks were read one after the other
)

// A Kind says why the clock was adjusted.
type Kind int

// The kinds; metrics and logs use their names.
const (
	Slew Kind = iota
	Suspend
	Forward
	Backward
	NumKinds
)

func (k Kind) String() string { return [...]string{"slew", "suspend", "forward", "backward"}[k] }

// A Sample is one comparison of the clocks. Wall, Clock and Position are Unix ns.
type Sample struct {
	Mono      time.Duration // since start, not counting suspension
	Suspended time.Duration // CLOCK_BOOTTIME − CLOCK_MONOTONIC; it grows by the time that the machine sleeps
	Wall      int64
	Clock     int64 // the id clock
	Position  int64 // the time of the last id; 0 while no id can have been issued
}

// An Adjustment moves the id clock by By. Note is for the log, or empty if there is nothing new to say.
type Adjustment struct {
	Kind Kind
	By   time.Duration
	Note string
	Step bool // the wall clock was set, or the machine slept, since the comparison before
}

// Discipline decides how the id clock follows the wall clock. It reads no clock; the zero value is
// ready.
//
//	machine was suspended  the time slept is added at once, because the monotonic clock stood still
//	less than 500 ms off   corrected by 5 ms a second
//	wall further ahead     followed after 60 s, so that a clock that is a year ahead for a moment does not
//	                       move the ids; and by 24 h at most, less the time for which the clocks agreed. So a
//	                       guest that its host stops every night is followed for ever, but a clock that is
//	                       far off only after a restart
//	the same, before ids   followed at once, however far: no ids depend on the clock yet. Some machines boot
//	                       in 1970
//	wall further back      followed at once, but not below the last id. A busy daemon stays ahead of the wall
//	                       clock and keeps issuing; an idle one goes back. If the wall clock comes forward
//	                       again within a minute, that is followed at once
type Discipline struct {
	started   bool
	last      time.Duration // Mono of the last comparison
	suspended time.Duration
	ahead     time.Duration // wall − clock of the step forward that is not followed yet
	since     time.Duration // Mono when that step was first seen
	holding   bool
	refused   bool
	back      bool          // a step back has been reported and is not over
	followed  time.Duration // sum of the steps forward that were followed, less the time for which the clocks agreed
	owed      time.Duration // how far the clock followed the wall clock back and has not come forward again
	agreed    time.Duration // Mono since when the two clocks agree, if agreeing
	agreeing  bool
}

// Step returns the adjustment for one comparison.
func (d *Discipline) Step(s Sample) Adjustment {
	slept, passed := s.Suspended-d.suspended, s.Mono-d.last
	first := !d.started
	d.started, d.suspended, d.last = true, s.Suspended, s.Mono
	if !first && slept > noise {
		return Adjustment{
			Kind: Suspend, By: slept, Step: true,
			Note: "the machine was suspended: the id clock skips the time slept",
		}
	}
	off := time.Duration(s.Wall - s.Clock)
	if by := min(off, d.owed); by > SlewRate { // the id clock was there before the step back
		d.owed, d.back, d.agreeing = d.owed-by, false, false
		return Adjustment{
			Kind: Forward, By: by, Step: true,
			Note: "the wall clock came forward again: the id clock follows to where it would have been",
		}
	}
	switch {
	case off >= SlewBelow:
		d.back, d.agreeing = false, false
		if s.Position == 0 {
			d.holding, d.refused = false, false
			return Adjustment{
				Kind: Forward, By: off, Step: true,
				Note: "the wall clock went forward, and no ids were issued yet: the id clock follows at once",
			}
		}
		return d.forward(s.Mono, off)
	case off <= -SlewBelow:
		d.holding, d.refused, d.agreeing = false, false, false
		return d.backward(s, off)
	}
	d.holding, d.refused, d.back = false, false, false
	if !d.agreeing {
		d.agreeing, d.agreed = true, s.Mono
	} else {
		d.followed = max(0, d.followed-passed)
	}
	if s.Mono-d.agreed >= ForwardHold { // the step back was right
		d.owed = 0
	}
	if -noise < off && off < noise {
		return Adjustment{}
	}
	return Adjustment{Kind: Slew, By: max(-SlewRate, min(SlewRate, off))}
}

func (d *Discipline) forward(mono, off time.Duration) Adjustment {
	if moved := off - d.ahead; !d.holding || moved >= SlewBelow || moved <= -SlewBelow {
		d.holding, d.refused, d.ahead, d.since = true, false, off, mono
		return Adjustment{
			Kind: Forward, Step: true,
			Note: "the wall clock went forward: followed if it stays there for " + ForwardHold.String(),
		}
	}
	switch {
	case mono-d.since < ForwardHold || d.refused:
		return Adjustment{Kind: Forward}
	case d.followed+off > ForwardLimit:
		d.refused = true
		return Adjustment{Kind: Forward,
			Note: "the wall clock went forward by more than " + ForwardLimit.String() + ": not followed, restart to accept it"}
	}
	d.holding = false
	d.followed += off
	return Adjustment{Kind: Forward, By: off, Note: "the id clock follows the wall clock forward"}
}

func (d *Discipline) backward(s Sample, off time.Duration) Adjustment {
	by := min(max(off, time.Duration(s.Position-s.Clock)), 0)
	d.owed -= by
	a := Adjustment{Kind: Backward, By: by}
	if !d.back {
		d.back, a.Step = true, true
		a.Note = "the wall clock went back: the id clock follows no further than the last id"
	}
	return a
}
