package clock

import "time"

// The rules' figures.
const (
	Interval     = time.Second            // between two comparisons
	SlewBelow    = 500 * time.Millisecond // differences smaller than this are worn off gradually,
	SlewRate     = 5 * time.Millisecond   // by at most this at each comparison
	ForwardHold  = 60 * time.Second       // a step forward is followed once it has held this long
	ForwardLimit = 24 * time.Hour         // all steps forward together, less the time for which the clocks agreed; further ones need a restart
	noise        = time.Millisecond       // differences that are only the readings being apart
)

// A Kind says why the clock was adjusted.
type Kind int

// The kinds, as metrics and logs name them.
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
	Suspended time.Duration // CLOCK_BOOTTIME − CLOCK_MONOTONIC; its growth is time that the machine slept
	Wall      int64
	Clock     int64 // the id clock
	Position  int64 // the last id's, 0 while there can be none
}

// An Adjustment moves the id clock By. Note is for the log, empty when there is nothing new to say.
type Adjustment struct {
	Kind Kind
	By   time.Duration
	Note string
}

// Discipline decides how the id clock follows the wall clock. It holds no clock itself; the zero value is ready.
//
//	suspended              the time slept is added at once: the monotonic clock stood still, the world did not
//	less than 500 ms off   worn off by 5 ms a second
//	wall further ahead     followed after it has held for 60 s: a clock that was a year ahead for a moment must not carry the ids
//	                       with it; and never by more than 24 h, less the time that went by in agreement: a guest that its
//	                       host stops every night is followed for ever, a clock that is far off not without a restart
//	the same, before ids   followed at once, however far: there is nothing to carry. Some machines boot in 1970
//	wall further back      followed at once, but not below the last id: a busy daemon stays ahead of the wall clock and goes on
//	                       issuing, an idle one comes back. What was followed back is followed forward again at
//	                       once within a minute
type Discipline struct {
	started   bool
	last      time.Duration // Mono of the last comparison
	suspended time.Duration
	ahead     time.Duration // wall − clock of the step forward that is being held
	since     time.Duration // Mono when it was first seen
	holding   bool
	refused   bool
	back      bool          // a step back has been reported and is not over
	followed  time.Duration // by steps forward, less the time in agreement
	owed      time.Duration // how far the clock followed the wall clock back, and has not come forward again
	agreed    time.Duration // Mono since when the two clocks agree, if they do
	agreeing  bool
}

// Step takes one comparison.
func (d *Discipline) Step(s Sample) Adjustment {
	slept, passed := s.Suspended-d.suspended, s.Mono-d.last
	first := !d.started
	d.started, d.suspended, d.last = true, s.Suspended, s.Mono
	if !first && slept > noise {
		return Adjustment{Suspend, slept, "the machine was suspended: the id clock skips the time slept"}
	}
	off := time.Duration(s.Wall - s.Clock)
	if by := min(off, d.owed); by > SlewRate { // it has been there before
		d.owed, d.back, d.agreeing = d.owed-by, false, false
		return Adjustment{Forward, by, "the wall clock came forward again: the id clock follows to where it would have been"}
	}
	switch {
	case off >= SlewBelow:
		d.back, d.agreeing = false, false
		if s.Position == 0 {
			d.holding, d.refused = false, false
			return Adjustment{Forward, off, "the wall clock went forward, and no ids were issued yet: the id clock follows at once"}
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
	return Adjustment{Slew, max(-SlewRate, min(SlewRate, off)), ""}
}

func (d *Discipline) forward(mono, off time.Duration) Adjustment {
	if moved := off - d.ahead; !d.holding || moved >= SlewBelow || moved <= -SlewBelow {
		d.holding, d.refused, d.ahead, d.since = true, false, off, mono
		return Adjustment{Kind: Forward, Note: "the wall clock went forward: followed if it stays there for " + ForwardHold.String()}
	}
	switch {
	case mono-d.since < ForwardHold || d.refused:
		return Adjustment{Kind: Forward}
	case d.followed+off > ForwardLimit:
		d.refused = true
		return Adjustment{Kind: Forward, Note: "the wall clock went forward by more than " + ForwardLimit.String() + ": not followed, restart to accept it"}
	}
	d.holding = false
	d.followed += off
	return Adjustment{Forward, off, "the id clock follows the wall clock forward"}
}

func (d *Discipline) backward(s Sample, off time.Duration) Adjustment {
	by := min(max(off, time.Duration(s.Position-s.Clock)), 0)
	d.owed -= by
	a := Adjustment{Kind: Backward, By: by}
	if !d.back {
		d.back = true
		a.Note = "the wall clock went back: the id clock follows no further than the last id"
	}
	return a
}
