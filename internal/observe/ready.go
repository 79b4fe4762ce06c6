package observe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

var errStopping = errors.New("shutting down")

// Ready is what /readyz looks at. It returns nil if ids are issued, or the reason why not: the daemon is about to stop;
// no lane issues ids of the default kind; or, where leaders of sequences are elected, one of them has not answered this
// daemon for long, or another daemon has its place.
func (o *Observer) Ready() error {
	if o.stopping.Load() {
		return errStopping
	}
	return o.names.Ready()
}

// Readiness returns the text of /readyz: the error that clients get, and below it what each lane is
// waiting for, and what is known of the store.
func (o *Observer) Readiness() error {
	err := o.Ready()
	if err == nil || errors.Is(err, errStopping) {
		return err
	}
	text := o.windows.Explain(err)
	if facts := o.storeFacts(); len(facts) > 0 {
		text += "\nstore: " + strings.Join(facts, ", ")
	}
	return errors.New(text)
}

// storeFacts returns what is known of the store, by the names of the statistics.
func (o *Observer) storeFacts() (lines []string) {
	o.windows.StoreFigures(func(f figure.Figure) {
		if f.Stat != "" {
			lines = append(lines, fmt.Sprintf("%s %v", strings.TrimPrefix(f.Name(), "lease_"), f.Value))
		}
	})
	return lines
}

// Status says in a few words what the daemon does now: which worker ids it serves, or why it does not.
func (o *Observer) Status() string {
	if o.stopping.Load() {
		return errStopping.Error()
	}
	return o.windows.Status()
}
