package leaserun

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// A screen is a terminal with somebody before it.
type screen struct {
	*lessee
	keys *os.File
}

// onScreen runs a script on a terminal of its own; $0 in it is the process that leases.
func (p *place) onScreen(script string) screen {
	p.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.Skipf("no terminal can be made here: %v", err)
	}
	p.Cleanup(func() { keys.Close() })
	unlocked := 0
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, unlocked); err != nil {
		p.Fatal(err)
	}
	number, err := unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		p.Fatal(err)
	}
	if p.terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		p.Skipf("no terminal can be made here: %v", err)
	}
	l := p.leaseBy("sh", "-c", script, os.Args[0])
	p.terminal.Close()
	go io.Copy(l, keys)
	return screen{l, keys}
}

func (s screen) enter(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

const ctrlC, ctrlD, ctrlZ = "\x03", "\x04", "\x1a"

// parrot is a program that repeats what is typed.
func parrot() (code int) {
	interrupts := make(chan os.Signal, 9)
	signal.Notify(interrupts, os.Interrupt)
	go func() {
		for n := 1; ; n++ {
			<-interrupts
			fmt.Printf("interrupt %d.", n)
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Printf("heard %s.", lines.Text())
	}
	return 3
}

// reader: it is stopped by its first read, is handed the terminal and goes on; afterwards it is the
// shell's again, which does not take it by itself as one with job control does.
func reader(p *place) {
	s := p.onScreen(`"$0" "$0"; echo "code $?."; read x; echo "shell heard $x."`)
	s.enter("one\n")
	s.await("heard one.")
	s.enter(ctrlC)
	s.await("interrupt 1.")
	s.enter(ctrlZ + "two\n") // nobody else could let it go on
	s.await("heard two.")
	s.enter(ctrlC)
	s.await("interrupt 2.") // once each: it was not passed on besides
	s.enter(ctrlD)
	s.await("code 3.")
	s.enter("three\n")
	s.await("shell heard three.")
	s.code(0)
	if s.said("interrupt 3.") {
		p.Error("what was typed came twice")
	}
}

// typed: ^Z stops neither the program nor the process that looks at the clock, and ^C reaches all
// of the program's group, here the sleep that its shell waits for. The process that becomes the sleep
// says that it is ready: one that the shell starts after ^C would sleep on.
func typed(p *place) {
	s := p.onScreen(
		`set -m; "$0" sh -c 'trap "echo in""terrupted." INT; (echo rea""dy.; exec sleep 1000); echo slept.'; echo "code $?."`)
	s.await("ready.")
	s.enter(ctrlZ)
	s.enter(ctrlC)
	s.await("interrupted.")
	s.await("slept.")
	s.await("code 0.")
	s.code(0)
}
