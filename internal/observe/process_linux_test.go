package observe

import (
	"net"
	"runtime"
	"testing"
)

// TestProcess: what the process takes is near what it must take; each descriptor counts.
func TestProcess(t *testing.T) {
	before := processNow()
	if before.CPU <= 0 || before.Processors != runtime.NumCPU() || before.Memory < 1<<20 || before.Memory > 1<<40 ||
		before.Files < 3 || uint64(before.Files) > before.MostFiles {
		t.Errorf("%+v", before)
	}
	const more = 20
	for range more {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if after := processNow(); after.Files < before.Files+more-5 || after.CPU < before.CPU {
		t.Errorf("%+v, before %d more descriptors %+v", after, more, before)
	}
}
