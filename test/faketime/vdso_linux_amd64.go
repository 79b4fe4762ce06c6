package faketime

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A vdso is where a process's vDSO has the functions that are replaced.
type vdso struct{ clockGettime, gettimeofday, time int64 }

type patch struct {
	at   int64
	code []byte
}

// word is where the offset lies: behind the code of clock_gettime.
func (v vdso) word() int64 { return v.clockGettime + int64(len(bytesOf(clockGettime))) }

func (v vdso) patches() []patch {
	return []patch{
		{v.clockGettime, bytesOf(clockGettime)},
		{v.gettimeofday, v.calling(gettimeofday, v.gettimeofday)},
		{v.time, v.calling(timeOfDay, v.time)},
	}
}

// calling is a listing's code for an address, where its call reaches clock_gettime.
func (v vdso) calling(listing string, at int64) []byte {
	code := bytesOf(listing)
	binary.LittleEndian.PutUint32(code[callEnd-4:], uint32(v.clockGettime-(at+callEnd)))
	return code
}

// bytesOf takes the bytes from a listing.
func bytesOf(listing string) []byte {
	var code []byte
	for line := range strings.Lines(listing) {
		digits, _, _ := strings.Cut(line, "|")
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), " ", ""))
		if err != nil {
			panic(err)
		}
		code = append(code, b...)
	}
	return code
}

// int clock_gettime(clockid_t edi, struct timespec *rsi)
const clockGettime = `
b8 e4 00 00 00        |      mov  eax, 228          SYS_clock_gettime
0f 05                 |      syscall
85 ff                 |      test edi, edi          CLOCK_REALTIME is 0
75 25                 |      jne  out
48 69 06 00 ca 9a 3b  |      imul rax, [rsi], 1000000000
48 03 46 08           |      add  rax, [rsi+8]
48 03 05 1b 00 00 00  |      add  rax, [word]
48 99                 |      cqo
b9 00 ca 9a 3b        |      mov  ecx, 1000000000
48 f7 f9              |      idiv rcx
48 89 06              |      mov  [rsi], rax
48 89 56 08           |      mov  [rsi+8], rdx
31 c0                 |      xor  eax, eax
c3                    | out: ret
cc cc cc cc cc cc cc  |      int3                   so that the word that follows is aligned
`

// callEnd is where the call ends in the two that follow.
const callEnd = 15

// int gettimeofday(struct timeval *rdi, struct timezone *rsi). It leaves the time zone alone.
const gettimeofday = `
57                    |      push rdi
48 83 ec 10           |      sub  rsp, 16
31 ff                 |      xor  edi, edi
48 89 e6              |      mov  rsi, rsp
e8 00 00 00 00        |      call clock_gettime
59                    |      pop  rcx               seconds
58                    |      pop  rax               nanoseconds
5f                    |      pop  rdi
48 85 ff              |      test rdi, rdi
74 10                 |      je   out
48 89 0f              |      mov  [rdi], rcx
31 d2                 |      xor  edx, edx
b9 e8 03 00 00        |      mov  ecx, 1000
f7 f1                 |      div  ecx
48 89 47 08           |      mov  [rdi+8], rax
31 c0                 | out: xor  eax, eax
c3                    |      ret
`

// time_t time(time_t *rdi)
const timeOfDay = `
57                    |      push rdi
48 83 ec 10           |      sub  rsp, 16
31 ff                 |      xor  edi, edi
48 89 e6              |      mov  rsi, rsp
e8 00 00 00 00        |      call clock_gettime
58                    |      pop  rax               seconds
59                    |      pop  rcx               nanoseconds
5f                    |      pop  rdi
48 85 ff              |      test rdi, rdi
74 03                 |      je   out
48 89 07              |      mov  [rdi], rax
c3                    | out: ret
`

// parseVDSO looks up the functions in the ELF image that the kernel mapped into a process at base.
// Each must be long enough for what will be written over it.
func parseVDSO(base int64, image []byte) (v vdso, err error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return v, fmt.Errorf("%w: the vDSO: %w", errors.ErrUnsupported, err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return v, fmt.Errorf("%w: the vDSO: %w", errors.ErrUnsupported, err)
	}
	for _, want := range []struct {
		name string
		size int
		at   *int64
	}{
		{"__vdso_clock_gettime", len(bytesOf(clockGettime)) + 8, &v.clockGettime},
		{"__vdso_gettimeofday", len(bytesOf(gettimeofday)), &v.gettimeofday},
		{"__vdso_time", len(bytesOf(timeOfDay)), &v.time},
	} {
		for _, s := range symbols {
			if s.Name == want.name && s.Size >= uint64(want.size) {
				*want.at = base + int64(s.Value)
			}
		}
		if *want.at == 0 {
			return v, fmt.Errorf("%w: the vDSO has no %s of at least %d bytes", errors.ErrUnsupported, want.name, want.size)
		}
	}
	return v, nil
}

// readVDSO finds the image in a process's memory.
func readVDSO(pid int) (base int64, image []byte, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	for s := bufio.NewScanner(bytes.NewReader(maps)); s.Scan(); {
		if !strings.HasSuffix(s.Text(), "[vdso]") {
			continue
		}
		var end int64
		if _, err := fmt.Sscanf(s.Text(), "%x-%x", &base, &end); err != nil {
			return 0, nil, fmt.Errorf("%q: %w", s.Text(), err)
		}
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		defer mem.Close()
		image = make([]byte, end-base)
		_, err = mem.ReadAt(image, base)
		return base, image, err
	}
	return 0, nil, fmt.Errorf("%w: the process has no vDSO", errors.ErrUnsupported)
}
