// Command go-library is a web service that gives each order an id, which it makes itself: it leases a worker id from
// the pool in a Redis, and asks no daemon.
//
//	katsubushi lease init -how new -redis redis://127.0.0.1:6379
//	POOL=redis://127.0.0.1:6379 go run ./examples/go-library
//	curl -X POST localhost:8080/orders
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

const (
	patience = 2 * time.Second  // for an id
	ready    = 30 * time.Second // for a worker id
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opening, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	ids, err := katsubushi.Open(opening, katsubushi.Config{
		Store: redis.Leased(env("POOL", "redis://127.0.0.1:6379")), Log: slog.Default(),
	})
	if err != nil {
		return err
	}
	defer ids.Close() // gives the worker id back, after the last request

	mux := http.NewServeMux()
	mux.Handle("POST /orders", newOrder(ids))
	listener, err := net.Listen("tcp", env("LISTEN", "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	log.Printf("orders at http://%s/orders", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// An order says its id as a string: JavaScript's numbers have 53 bits.
type order struct {
	ID uint64 `json:"id,string"`
}

// newOrder takes a Source: whether the ids are made here or asked of a daemon is main's business.
func newOrder(ids katsubushi.Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		id, err := ids.ID(ctx)
		if err != nil {
			log.Print("no id: ", err)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "no id", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(order{id}) // an error means that the caller is gone
	}
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
