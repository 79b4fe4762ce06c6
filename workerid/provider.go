package workerid

import (
	"cmp"
	"time"
)

// A Provider says where a program's worker ids come from. Dir of package static makes one, and so do Leased and
// the Configs of packages redis, etcd and zookeeper.
type Provider struct {
	// Workers are worker ids that the operator has given to this program and to no other one, and Dir is the
	// directory in which their windows are recorded.
	Workers []uint64
	Dir     string
	// Lease makes the settings of a pool; nil = the worker ids are Workers. What no caller has set is as in terms.
	Lease func(terms Terms) Leases
}

// Leases are the settings of a pool of worker ids. SettingErrors takes their errors apart, by the fields of a Config.
type Leases interface {
	Validate() error    // returns everything that is wrong; reads no file
	ReadSecrets() error // reads the files that hold secrets
	WithDefaults() Terms
	BestHeartbeat() time.Duration // between two extensions, if the terms have none
	Pool() string                 // where the pool is inside its store, such as /katsubushi
	Open() (Backend, error)       // does not connect yet, so the store need not be running
	OpenAdmin() (Admin, error)    // the same for operators
}

// Or returns the terms with those of others for the unset ones. Min and Max go together.
func (t Terms) Or(others Terms) Terms {
	if t.Max == 0 {
		t.Min, t.Max = others.Min, others.Max
	}
	t.Layout, t.Lease = cmp.Or(t.Layout, others.Layout), cmp.Or(t.Lease, others.Lease)
	t.Heartbeat, t.MaxSkew = cmp.Or(t.Heartbeat, others.Heartbeat), cmp.Or(t.MaxSkew, others.MaxSkew)
	t.AutoInit = t.AutoInit || others.AutoInit
	if t.Now == nil {
		t.Now = others.Now
	}
	if t.Log == nil {
		t.Log = others.Log
	}
	return t
}
