package memcounter

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
)

func TestStore(t *testing.T) {
	countertest.Run(t, func(*testing.T) countertest.Open {
		s := Store{NewDatabase()}
		return func(*testing.T) (counter.Store, counter.Admin) { return s, s }
	})
}
