package countertest

import (
	"errors"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Define records sequences as counter.Sequence says; without names it is orders.
func Define(t testing.TB, s counter.Store, names ...string) {
	t.Helper()
	for _, name := range append(names, "orders")[:max(1, len(names))] {
		if _, err := s.Define(bg, counter.Sequence(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// Refused wants an error that is another one, or any, and says all texts.
func Refused(t testing.TB, err, is error, texts ...string) {
	t.Helper()
	if err == nil || is != nil && !errors.Is(err, is) {
		t.Fatalf("%v, want %v", err, is)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
}
