package leaserun

import (
	"os"

	"golang.org/x/sys/unix"
)

// A terminal is this process's controlling terminal, or nil if there is none.
//
// The program has its own process group and starts in the background, so that typed signals (^C, ^\)
// still reach all processes of a pipeline or a script; this process forwards them. When the program does
// more with the terminal than write to it, the kernel stops the program. Then this process gives it the
// terminal, if it has the terminal itself, and continues it. From then on the program gets typed
// signals directly.
type terminal os.File

func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return (*terminal)(f)
}

func (t *terminal) fd() int { return int((*os.File)(t).Fd()) }

// foreground returns the terminal's foreground process group, 0 if there is none.
func (t *terminal) foreground() (group int) {
	if t == nil {
		return 0
	}
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// ours reports whether typed signals reach this process.
func (t *terminal) ours() bool { return t.foreground() == unix.Getpgrp() }

func (t *terminal) give(group int) { unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) }

// stopped handles that a signal stopped the leader of a process group. A group that has the terminal
// does not stay stopped after ^Z: nobody would take the terminal back, because this process must not
// stop; it watches the clock.
func (t *terminal) stopped(group int, by unix.Signal) {
	wants := by == unix.SIGTTIN || by == unix.SIGTTOU
	if wants && t.ours() {
		t.give(group)
	}
	if (wants || by == unix.SIGTSTP) && t.foreground() == group {
		unix.Kill(-group, unix.SIGCONT)
	}
}

// takeBack takes the terminal from a dead process group. If another process has it, such as a
// shell, that process keeps it.
func (t *terminal) takeBack() {
	if group := t.foreground(); group != 0 && unix.Kill(-group, 0) == unix.ESRCH {
		t.give(unix.Getpgrp())
	}
}

func (t *terminal) close() {
	if t != nil {
		(*os.File)(t).Close()
	}
}
