package client_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
)

// One daemon runs on each of some hosts, and ids.example has an address for each host. The client asks
// all of them, and another one when one fails.
func ExampleDNS() {
	port := daemon()
	ids, err := client.New(client.DNS("localhost:"+port), client.Config{Logger: slog.Default()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ids.Close()
	id, err := ids.ID(context.Background())
	fmt.Println(id > 0, err)
	// Output: true <nil>
}

// With a stock most calls take 50 ns and wait for nobody. What it costs: an id may be up to MaxAge older
// than the call that gets it, so ids of two programs are in order of time only up to MaxAge; and ids that
// are in stock when they expire, or at Close, are lost.
func ExampleConfig_prefetch() {
	ids, err := client.New(client.Static("127.0.0.1:"+daemon()), client.Config{
		Prefetch: 1000,
		MaxAge:   2 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ids.Close()
	last, ordered := uint64(0), true
	for range 10_000 {
		id, err := ids.ID(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		ordered = ordered && id > last
		last = id
	}
	fmt.Println("in order:", ordered, "- few requests:", ids.Stats().Requests < 1000)
	// Output: in order: true - few requests: true
}

// A web handler: the request's context ends the call when the browser has gone, and a limit keeps the page
// quick when no daemon answers.
func ExampleClient_ID() {
	ids, err := client.New(client.Static("127.0.0.1:"+daemon()), client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ids.Close()
	handler := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		id, err := ids.ID(ctx)
		if err != nil {
			http.Error(w, "no id: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, id > 0)
	}
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest("POST", "/orders", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 200 true
}

// A daemon that declares names issues other kinds of id too.
func ExampleClient_Generator() {
	ids, err := client.New(client.Static("127.0.0.1:"+daemon()), client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ids.Close()
	orders, sessions := ids.Generator("orders"), ids.Generator("sessions")
	first, err := orders.IDs(context.Background(), 3)
	fmt.Println(len(first), err)
	session, err := sessions.Text(context.Background())
	fmt.Println(session != "", err)
	// Output:
	// 3 <nil>
	// true <nil>
}

// daemon stands for katsubushi, on a free port of localhost.
func daemon() (port string) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		panic(err)
	}
	var last atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for s := bufio.NewScanner(c); s.Scan(); {
					words := strings.Fields(s.Text())
					var n int64
					switch words[0] {
					case "version":
						fmt.Fprint(c, "VERSION 3.0.0\r\n")
					case "ids":
						fmt.Sscan(words[1], &n)
						fmt.Fprintf(c, "IDS %d 1 %d\r\nEND\r\n", last.Add(n)-n+1, n)
					case "get":
						text := fmt.Sprintf("%020d", last.Add(1))
						fmt.Fprintf(c, "VALUE %s 0 %d\r\n%s\r\nEND\r\n", words[1], len(text), text)
					}
				}
			}()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}
