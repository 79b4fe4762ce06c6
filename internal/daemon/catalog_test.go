package daemon

import (
	"reflect"
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
