package redis

import (
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

func TestSettings(t *testing.T) {
	good := Config{URL: "redis://h", Terms: workerid.Terms{Layout: "l", Min: 1, Max: 1023}}
	s, err := Open(good)
	if err != nil {
		t.Fatal(err)
	}
	if want := "l;lease=60000ms;ids=1-1023"; s.terms.Fingerprint != want || good.Fingerprint() != want {
		t.Errorf("%q", s.terms.Fingerprint)
	}
	if s.terms.Epsilon != 5000 || s.terms.MaxSkew != 2000 || s.terms.MaxLease != 60000 {
		t.Errorf("%+v", s.terms)
	}
	if workerid.HeartbeatOf(time.Minute) != 5*time.Second || workerid.HeartbeatOf(time.Second) != time.Second {
		t.Error("heartbeat")
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.URL = "" },
		func(c *Config) { c.PasswordFile = "missing" },
		func(c *Config) { c.Min = 2000 },
		func(c *Config) {
			c.Max = 1 << 16
			c.Min = 0
		},
		func(c *Config) { c.Lease = 19 * time.Second },
		func(c *Config) { c.Lease, c.HoldRaus = rausMaxLease+1, "raus" },
		func(c *Config) { c.MaxSkew = 10 * time.Second },
		func(c *Config) { c.MaxSkew = -1 },
		func(c *Config) { c.Replicas = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := Open(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	good.HoldRaus, good.Lease = "raus", rausMaxLease
	if s, err = Open(good); err != nil || s.terms.MaxLease != rausExpiry.Milliseconds() ||
		good.BestHeartbeat() != time.Second {
		t.Errorf("beside raus: %v, %+v", err, s)
	}
}
