package main

import (
	"io"
	"net/http"
	"strings"
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
