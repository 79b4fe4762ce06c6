package main

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// TestHTTPAnswers: however they are cut, they are counted; of a head the status and the length are looked at.
func TestHTTPAnswers(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nVary: Accept\r\nContent-Length: "
	const good = head + "19\r\n\r\n1234567890123456789" + head + "1\r\nDate: x\r\n\r\n7"
	for i := range good {
		n, rest, err := feed(httpDialect{idCheck{seen: &unique.Set{}}}, []string{good[:i], good[i:]})
		if n != 2 || rest != "" || err != nil {
			t.Fatalf("cut at %d: %d answers, left %q, %v", i, n, rest, err)
		}
	}
	for _, bad := range []string{
		"HTTP/1.1 503 Service Unavailable\r\n", "HTTP/1.1 200 OK\r\nVary: Accept\r\n\r\n", head + "0\r\n\r\n",
		head + "21\r\n\r\n", head + "x\r\n\r\n", head + "2\r\n\r\n1x", head + "1\r\n\r\n12",
	} {
		if n, rest, err := feed(httpDialect{}, []string{bad}); err == nil {
			t.Errorf("%q is no answer: %d, left %q", bad, n, rest)
		}
	}
}
