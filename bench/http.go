package main

import (
	"bytes"
	"fmt"
	"strconv"
)

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
