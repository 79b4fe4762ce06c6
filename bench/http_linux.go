package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// kayacPeer is the daemon of kayac/go-katsubushi, asked over HTTP alone.
func kayacPeer() peer {
	return peer{name: "kayac", speech: "http", command: func(at endpoint, _ int, dir string) []string {
		if at.via != overHTTP {
			return nil
		}
		_, port, _ := net.SplitHostPort(at.address) // it listens on all addresses
		return []string{filepath.Join(dir, "kayac"), "-worker-id", "1023", "-sock", filepath.Join(dir, "kayac-"+port),
			"-http-port", port, "-log-level", "error"}
	}}
}

// bareHTTPPeer is this program as a server that answers each request with the same id: what net/http itself costs.
func bareHTTPPeer() peer {
	return peer{name: "floor http", speech: "http", command: func(at endpoint, _ int, _ string) []string {
		self, err := os.Executable()
		if err != nil || at.via != overHTTP {
			return nil
		}
		return []string{self, bareHTTP, at.address}
	}}
}

// bareHTTP is the argument that makes this program a bare server.
const bareHTTP = "floor-http"

func serveBareHTTP(address string) error {
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, benchID)
	}))
}

// primeHTTP sees that a server answers. All of them issue ids, but the bare one.
func (pr *process) primeHTTP(conn net.Conn) error {
	if _, err := io.WriteString(conn, httpRequest); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	pr.issues = string(text) != benchID
	return errors.Join(err, idCheck{}.number(text))
}

// scrapeEvery is how often scrape asks.
const scrapeEvery = 100 * time.Millisecond

// scrape asks for /metrics again and again, as Prometheus does, until stop is called.
func scrape(at string) (stop func() error, err error) {
	get := func() error {
		answer, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	}
	if err := get(); err != nil {
		return nil, err
	}
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		t := time.NewTicker(scrapeEvery)
		defer t.Stop()
		for {
			select {
			case <-end:
				ended <- nil
				return
			case <-t.C:
				if err := get(); err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	return func() error {
		close(end)
		return <-ended
	}, nil
}
