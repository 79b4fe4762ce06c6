package stores

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// TestStatesOfRecordsThatCannotBeRead: a damaged one wants to be raised, and no other one.
func TestStatesOfRecordsThatCannotBeRead(t *testing.T) {
	for want, err := range map[string]error{
		"damaged": fmt.Errorf("a: %w", counter.ErrDamaged), "not readable": syscall.EROFS,
	} {
		r := counter.Unread("a", err)
		if s := Show(r); s.State != want || s.Name != "a" {
			t.Errorf("%v: %+v", err, s)
		}
	}
}
