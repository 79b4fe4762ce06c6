package clock

import (
	"testing"
	"time"
)

// Boot goes on with the clock, and is positive, as 0 means "no moment".
func TestBoot(t *testing.T) {
	before := time.Now()
	first := Boot()
	after := time.Now()
	for Boot() < first+int64(time.Millisecond) {
		if time.Since(after) > time.Minute {
			t.Fatal("it stands still")
		}
	}
	least := time.Since(after)
	passed := time.Duration(Boot() - first)
	if most := time.Since(before); first < 1 || passed < least-time.Microsecond || passed > most+time.Microsecond {
		t.Errorf("from %d on %v passed; on the other clock %v to %v", first, passed, least, most)
	}
}
