package leaserun

import (
	"os"

	"golang.org/x/sys/unix"
)

// A terminal is the one that controls this process, nil if none does.
//
// The program has a process group of its own and begins in the background, so that what is typed (^C, ^\) still reaches everybody in a
// pipeline or a script; this process passes it on. As soon as the program wants more of the terminal than to write on it, the kernel stops
// it: then it is handed the terminal, if this process has it to give, and goes on. From there on it gets what is typed by itself.
type terminal os.File

func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return (*terminal)(f)
}

func (t *terminal) fd() int { return int((*os.File)(t).Fd()) }

// foreground is the process group that the terminal listens to, 0 if there is none.
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

// ours says whether what is typed reaches this process.
func (t *terminal) ours() bool { return t.foreground() == unix.Getpgrp() }

func (t *terminal) give(group int) { unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) }

// stopped is told that a signal stopped the leader of a process group. One that has the terminal does not stay stopped by ^Z: nobody would
// have the terminal then, for this process does not stop, it has a clock to look at.
func (t *terminal) stopped(group int, by unix.Signal) {
	wants := by == unix.SIGTTIN || by == unix.SIGTTOU
	if wants && t.ours() {
		t.give(group)
	}
	if (wants || by == unix.SIGTSTP) && t.foreground() == group {
		unix.Kill(-group, unix.SIGCONT)
	}
}

// takeBack takes the terminal from a process group that is dead. Whoever has it else, a shell perhaps, keeps it.
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
