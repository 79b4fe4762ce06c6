package daemon

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// wakened is an engine that counts how often it is woken.
type wakened struct {
	server.Engine
	n int
}

func (w *wakened) Wake() { w.n++ }

// TestTheEngineIsWoken: by names that have ids again.
func TestTheEngineIsWoken(t *testing.T) {
	d, err := New(t.Context(), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.windows.Stop(true)
	e := &wakened{Engine: d.met("engine").Interface().(server.Engine)}
	d.met("engine").Set(reflect.ValueOf(e))
	if d.names.Wake(); e.n != 1 {
		t.Errorf("it was woken %d times", e.n)
	}
}

// TestWhatADefinitionMustFit: the daemon's own layout, run-ahead and worker ids.
func TestWhatADefinitionMustFit(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"worker ids go up to 40": func(c *Config) { c.WorkerIDs = []uint64{3, 40} },
		"worker ids go up to 41": func(c *Config) {
			c.WorkerIDs, c.Store.URL = nil, "redis://127.0.0.1:1"
			c.Store.Max = 41
		},
		"need a run-ahead of at least": func(c *Config) { c.MaxRunAhead = 0 },
		"objectid has 54 for both":     func(c *Config) { c.Layout.TimeBits, c.Layout.SequenceBits = 2, 51 },
	} {
		c := testConfig()
		c.Definitions = "a snowflake layout=js53; b snowflake layout=sonyflake; c objectid"
		if change(&c); !strings.Contains(fmt.Sprint(c.Validate()), want) {
			t.Errorf("%v, want %s", c.Validate(), want)
		}
	}
}
