package protocol

import "testing"

// handler is a Handler that does not answer.
type handler struct{ Handler }

func TestConfigCheck(t *testing.T) {
	good := Config{Handler: handler{}, Counters: new(Counters), Version: "10.20.30"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, v := range []string{"", "1", "1.2", "v1.2.3", "1.2.3-dev", "1..3", "1.2.3.4", ".1.2.3", "1.2."} {
		c := good
		if c.Version = v; c.Check() == nil {
			t.Errorf("version %q passes", v)
		}
	}
	if (&Config{Counters: good.Counters, Version: good.Version}).Check() == nil ||
		(&Config{Handler: good.Handler, Version: good.Version}).Check() == nil {
		t.Error("an incomplete Config passes")
	}
}
