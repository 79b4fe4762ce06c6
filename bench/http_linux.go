package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
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

// httpDialect is HTTP/1.1's GET of an id, with the headers that Go's client sends.
type httpDialect struct{ ids idCheck }

const httpRequest = "GET /id HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\n\r\n"

func (d httpDialect) request(depth int) []byte { return bytes.Repeat([]byte(httpRequest), depth) }
func (d httpDialect) stamp([]byte, *progress)  {}

func (d httpDialect) check(_ *progress, in []byte) (consumed, answers int, err error) {
	const status = "HTTP/1.1 200 OK\r\n"
	for consumed < len(in) {
		rest := in[consumed:]
		if _, err := literal(rest[:min(len(rest), len(status))], status); err != nil && err != errPartial {
			return consumed, answers, err
		}
		head := bytes.Index(rest, []byte("\r\n\r\n"))
		if head < 0 {
			break
		}
		size, err := contentLength(rest[:head+2])
		if err != nil {
			return consumed, answers, err
		}
		body := rest[head+4:]
		if len(body) < size {
			break
		}
		if err := d.ids.number(body[:size]); err != nil {
			return consumed, answers, err
		}
		consumed, answers = consumed+head+4+size, answers+1
	}
	return consumed, answers, nil
}

func contentLength(head []byte) (int, error) {
	const name = "\r\nContent-Length: "
	_, value, found := bytes.Cut(head, []byte(name))
	digits, _, _ := bytes.Cut(value, []byte("\r"))
	n, err := strconv.Atoi(string(digits))
	if !found || err != nil || n < 1 || n > maxDigits {
		return 0, wrong(fmt.Sprintf("%q and 1 to %d", name, maxDigits), head)
	}
	return n, nil
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
