package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// factual is a store of which something is known.
type factual struct {
	workerid.Backend
	facts []workerid.Fact
}

func (f factual) Facts() []workerid.Fact { return f.facts }

// Of a store's facts, /readyz and the statistics show all, the metrics all but texts that change too
// often.
func TestWhatIsKnownOfAStoreIsShown(t *testing.T) {
	d := &Daemon{store: factual{facts: []workerid.Fact{
		{Name: "etcd", Help: "Where.", Value: []workerid.Text{{Name: "servers", Label: "servers", Value: "h:1"}, {Name: "error", Value: "no answer"}}},
		{Name: "etcd_floor", Help: "Floor.", Value: 1500 * time.Millisecond},
		{Name: "etcd_epoch", Help: "Epoch.", Value: 7},
	}}}
	if got, want := d.storeFacts(), []string{"etcd_servers h:1", "etcd_error no answer", "etcd_floor 1.5s", "etcd_epoch 7"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	d.store = factual{}
	if got := d.storeFacts(); got != nil {
		t.Errorf("%q of nothing", got)
	}
	g := gauge(workerid.Fact{Name: "etcd", Value: []workerid.Text{{Name: "servers", Label: "servers", Value: "h:1"}, {Name: "error", Value: "no answer"}}})
	if !slices.Equal(g.Labels, []string{"servers", "h:1"}) || g.Name != "etcd_info" || g.Value != 1 {
		t.Errorf("%+v", g)
	}
}
