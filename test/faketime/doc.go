// Package faketime runs one real process with a wall clock of its own, for tests of what programs
// do when the clock is wrong.
//
// A program reads the clock through the vDSO, a page of code that the kernel maps into it. Start
// has the kernel stop the new process before its first instruction, as it would for a debugger,
// writes its own code over the vDSO's, and lets go of it:
//
//	__vdso_clock_gettime   asks the kernel, and adds the offset if the clock is CLOCK_REALTIME
//	__vdso_gettimeofday    asks the above
//	__vdso_time            asks the above
//	offset                 one 64-bit word of nanoseconds, behind the code of the first
//
// So CLOCK_REALTIME is shifted in that process, and in what it forks without exec, and nowhere
// else; the machine's clock, monotonic clocks and timers are left alone. It works on any program
// that uses the vDSO: Go's runtime (which preloaded libraries do not reach), glibc, musl. What is
// not shifted: direct system calls, CLOCK_REALTIME_COARSE, the times of files.
//
// Only linux/amd64 can do it. Elsewhere, and where a process may not be traced, Start returns an
// error that is errors.ErrUnsupported.
package faketime
