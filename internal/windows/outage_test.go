package windows

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// TestAFullRateIsNoOutage: with ticks longer than a client may wait, Ready says for a moment that the ids are
// used up.
func TestAFullRateIsNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := fixed(&log)
		c.Layout, _ = generator.LayoutByName("sonyflake") // ticks of 10 ms
		h := New(c)
		h.Opened(0)
		now := h.Clock.Now()
		if err := h.Issuer.Publish(0, 1, now, now+60_000); err != nil {
			t.Fatal(err)
		}
		for h.Issuer.Ready(h.Clock.Now()) == nil {
			h.id()
		}
		refusal := (*issuer.Refusal)(nil)
		if err := h.c.Ready(); !errors.As(err, &refusal) || refusal.Reason != issuer.RateExceeded {
			t.Fatal(err)
		}
		if h.lookForOutage(time.Now()); strings.Contains(log.take(), "level=ERROR") {
			t.Error("it is an outage")
		}
	})
}
