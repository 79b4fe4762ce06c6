package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU is the CPU time that the calling thread has used.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// processCPU is the CPU time that all threads of a process have used, those that have ended
// included: the first column of /proc/PID/task/*/schedstat in one system call. Like that it may be
// a scheduler tick old (4 ms at 250 Hz) for a thread that is running.
func processCPU(pid int) (time.Duration, error) {
	const scheduled = 2 // the clock of what the scheduler charges
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// residentBytes is the memory of a process that is in RAM. smaps_rollup walks the page tables and
// is exact; the counters in status lag.
func residentBytes(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	_, after, ok := bytes.Cut(b, []byte("\nRss:"))
	if !ok {
		return 0, fmt.Errorf("no Rss in smaps_rollup of process %d", pid)
	}
	kb, err := strconv.ParseInt(string(bytes.Fields(after)[0]), 10, 64)
	return kb << 10, err
}

// cpuIdle is how long a CPU has been idle since boot, to 10 ms.
func cpuIdle(cpu int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	name := fmt.Sprintf("cpu%d", cpu)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != name {
			continue
		}
		idle, err1 := strconv.ParseInt(f[4], 10, 64)
		iowait, err2 := strconv.ParseInt(f[5], 10, 64)
		if err1 != nil || err2 != nil {
			break
		}
		return time.Duration(idle+iowait) * 10 * time.Millisecond, nil
	}
	return 0, fmt.Errorf("no usable line for %s in /proc/stat", name)
}

// allowedCPUs are the CPUs that this process may run on.
func allowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}

// pinProcess keeps all threads that the process has, and so all that they will make, on the given
// CPUs.
func pinProcess(cpus ...int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := pinThread(tid, cpus...); err != nil && err != unix.ESRCH {
			return fmt.Errorf("pin to CPUs %v: %w", cpus, err)
		}
	}
	return nil
}

// pinThread keeps one thread, 0 being the caller, on the given CPUs.
func pinThread(tid int, cpus ...int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(tid, &set)
}

// startPinned runs start on a thread that is pinned to cpu, so that a process it starts, and all of
// that one's threads, stay there.
func startPinned(cpu int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := pinThread(0, cpu); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	defer unix.SchedSetaffinity(0, &before)
	return start()
}
