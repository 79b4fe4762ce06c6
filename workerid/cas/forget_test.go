package cas

import (
	"strconv"
	"testing"

	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// What a Session remembers of writes without an answer, and of request ids, has an end.
func TestASessionForgets(t *testing.T) {
	var s Session
	for i := range rememberedConns + 2 {
		s.conn = strconv.Itoa(i)
		s.asks("o", pool.Sent{Record: pool.Record{Token: s.token()}})
	}
	if a := s.asked["o"]; len(a) != remembered || a[remembered-1].Record.Token != s.conn+".1" {
		t.Errorf("%d acquisitions, the last is %+v", len(a), a[len(a)-1])
	}
	for range 10 {
		if token := s.token(); !s.mine(token) {
			t.Errorf("%s is another's", token)
		}
	}
	for token, want := range map[string]bool{"1.1": false, "2.1": true, "2.2": false, "2.0": false, "2.x": false,
		"2": false} {
		if s.mine(token) != want {
			t.Errorf("%s: %v", token, !want)
		}
	}
}
