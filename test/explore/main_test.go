package explore

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // small states that live briefly
	os.Exit(m.Run())
}
