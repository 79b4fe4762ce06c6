package faketime

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is a running command with a wall clock of its own. Its methods may be called from any
// goroutine; after the command's end they return os.ErrProcessDone.
type Process struct {
	cmd    *exec.Cmd
	word   int64 // address of the offset in the process
	mu     sync.Mutex
	offset time.Duration
	paused bool
}

// Start starts cmd, as cmd.Start does, with its wall clock offset from the machine's: at most a
// century or so in total. The caller waits for cmd as usual. On an error nothing is left running;
// it is errors.ErrUnsupported where this cannot work at all.
func Start(cmd *exec.Cmd, offset time.Duration) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	runtime.LockOSThread() // whose child is traced by this thread alone
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
			err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		return nil, err
	}
	p := &Process{cmd: cmd, offset: offset}
	if err := p.prepare(); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("faketime: %w", err)
	}
	return p, nil
}

// prepare waits for the stop that ends exec, puts the code in place and ends the tracing.
func (p *Process) prepare() error {
	pid := p.cmd.Process.Pid
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for the end of exec: %w", err)
		}
		break
	}
	if !status.Stopped() || status.StopSignal() != syscall.SIGTRAP {
		return fmt.Errorf("after exec the process has status %#x, not a trap", uint32(status))
	}
	base, image, err := readVDSO(pid)
	if err != nil {
		return err
	}
	v, err := parseVDSO(base, image)
	if err != nil {
		return err
	}
	p.word = v.word()
	for _, patch := range v.patches() {
		if err := writeMemory(pid, patch.at, patch.code); err != nil {
			return err
		}
	}
	if err := p.write(); err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}

// Step moves the process's wall clock by d, as settimeofday would for everybody. The process stands
// still meanwhile.
func (p *Process) Step(d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		if err := p.pause(); err != nil {
			return err
		}
		defer p.resume()
	}
	p.offset += d
	return p.write()
}

// Pause stops the process until Resume, as SIGSTOP does, and returns when all its threads stand still.
func (p *Process) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		return nil
	}
	p.paused = true
	return p.pause()
}

// Resume lets it go on.
func (p *Process) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	return p.resume()
}

func (p *Process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		// Stops only: whoever waits for the process's end shall not miss it.
		switch err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WSTOPPED, nil); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.ECHILD:
			return os.ErrProcessDone
		default:
			return fmt.Errorf("faketime: waiting for the process to stop: %w", err)
		}
	}
}

func (p *Process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// write stores the offset. The process stands still, and reads it with one instruction.
func (p *Process) write() error {
	return writeMemory(p.cmd.Process.Pid, p.word, binary.LittleEndian.AppendUint64(nil, uint64(p.offset)))
}

func writeMemory(pid int, at int64, b []byte) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	defer mem.Close()
	if _, err := mem.WriteAt(b, at); err != nil {
		return fmt.Errorf("%w: writing over the vDSO: %w", errors.ErrUnsupported, err)
	}
	return nil
}
