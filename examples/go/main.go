// Command go is a web service that gives each order an id:
//
//	curl -X POST localhost:8080/orders
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
)

// patience is how long a request waits for its id.
const patience = 2 * time.Second

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// One client for the whole program. Handlers that ask at the same time share requests.
	ids, err := client.New(client.Static(env("IDS", "127.0.0.1:11212")), client.Config{})
	if err != nil {
		return err
	}
	defer ids.Close()

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

func newOrder(ids *client.Client) http.HandlerFunc {
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
