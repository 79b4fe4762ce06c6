package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// httpGet asks a port of loopback, or a host and port, that may not be there yet: then the status is 0.
func httpGet(port, path string) (status int, header http.Header, body string) {
	if !strings.Contains(port, ":") {
		port = "127.0.0.1:" + port
	}
	resp, err := http.Get("http://" + port + path)
	if err != nil {
		return 0, nil, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b)
}

// awaitReadyz waits until /readyz says this. Its lines about lanes come after the sentence that
// clients get.
func awaitReadyz(t *testing.T, port string, status int, sentence, lanes string) {
	t.Helper()
	await(t, fmt.Sprintf("/readyz is %d %q %q", status, sentence, lanes), func() bool {
		s, header, body := httpGet(port, "/readyz")
		first, below, _ := strings.Cut(body, "\n")
		if s == http.StatusServiceUnavailable && header.Get("Retry-After") != "1" {
			t.Fatalf("Retry-After: %q", header.Get("Retry-After"))
		}
		return s == status && strings.HasPrefix(first, sentence) && strings.Contains(below, lanes)
	})
}

// leaseStats holds values of /stats.
func leaseStats(t *testing.T, port string) map[string]any {
	t.Helper()
	_, _, body := httpGet(port, "/stats")
	var m map[string]any
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return m
}
