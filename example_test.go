package katsubushi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

func Example() {
	dir, err := os.MkdirTemp("", "ids") // a directory that lasts, in a program
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	ids, err := katsubushi.Open(ctx, katsubushi.Config{Store: static.Dir(dir, 977)})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
	first, err := ids.ID(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := ids.ID(ctx)
	fmt.Println(first < second, err)
	// Output: true <nil>
}

// opened makes the IDs of an example, with a store of sequences.
func opened(worker uint64) (ids *katsubushi.IDs, done func()) {
	dir, err := os.MkdirTemp("", "ids")
	if err != nil {
		log.Fatal(err)
	}
	counters, err := file.Open(file.Config{Dir: filepath.Join(dir, "sequences"), AnyDisk: true})
	if err != nil {
		log.Fatal(err)
	}
	ids, err = katsubushi.Open(context.Background(), katsubushi.Config{
		Store: static.Dir(dir, worker), Counters: counters,
	})
	if err != nil {
		log.Fatal(err)
	}
	return ids, func() {
		ids.Close()
		os.RemoveAll(dir)
	}
}

// A program waits half a minute for a worker id from the pool that daemons use too.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ids, err := katsubushi.Open(ctx, katsubushi.Config{Store: redis.Leased("redis://localhost:6379")})
	switch {
	case errors.Is(err, katsubushi.ErrUnready):
		log.Fatal("the pool does not answer, or has no free worker id: ", err)
	case err != nil:
		log.Fatal("a setting is wrong, or the pool has another layout: ", err)
	}
	defer ids.Close()
}

// A program that needs more than 4,096 ids a millisecond leases several worker ids. Sequences are recorded in files.
func ExampleConfig() {
	counters, err := file.Open(file.Config{Dir: "/var/lib/shop"})
	if err != nil {
		log.Fatal(err)
	}
	ids, err := katsubushi.Open(context.Background(), katsubushi.Config{
		Store:    redis.Leased("redis://localhost:6379"),
		Lanes:    4,
		RunAhead: katsubushi.DefaultRunAhead,
		Counters: counters,
		Log:      slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
}

// Whether ids are made here or asked of daemons is one line.
func ExampleSource() {
	var ids katsubushi.Source
	var err error
	if daemons := os.Getenv("DAEMONS"); daemons != "" {
		ids, err = client.New(client.Static(daemons), client.Config{})
	} else {
		ids, err = katsubushi.Open(context.Background(), katsubushi.Config{Store: static.Dir("/var/lib/shop", 1)})
	}
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/orders", func(w http.ResponseWriter, r *http.Request) {
		id, err := ids.ID(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, id)
	})
}

// All goroutines of a program use the same IDs.
func ExampleIDs() {
	ids, done := opened(961)
	defer done()
	got := make(chan uint64)
	for range 3 {
		go func() {
			id, err := ids.ID(context.Background())
			if err != nil {
				log.Fatal(err)
			}
			got <- id
		}()
	}
	a, b, c := <-got, <-got, <-got
	fmt.Println(a != b && b != c && c != a)
	// Output: true
}

// ctx matters only if ids must be waited for.
func ExampleIDs_ID() {
	ids, done := opened(962)
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	id, err := ids.ID(ctx)
	if errors.Is(err, katsubushi.ErrUnready) {
		log.Fatal("the store is away for longer than a lease: ", err)
	}
	fmt.Println(id != 0, err)
	// Output: true <nil>
}

func ExampleIDs_IDs() {
	ids, done := opened(963)
	defer done()
	many, err := ids.IDs(context.Background(), 500)
	fmt.Println(len(many), slices.IsSorted(many), err)
	_, err = ids.IDs(context.Background(), katsubushi.MaxIDs+1)
	fmt.Println(errors.Is(err, katsubushi.ErrCount))
	// Output:
	// 500 true <nil>
	// true
}

// One process at a time may issue a sequence in strict order, so that is for daemons.
func ExampleIDs_Name() {
	ids, done := opened(964)
	defer done()
	ctx := context.Background()
	orders, err := ids.Name(ctx, "orders sequence start=1000")
	if err != nil {
		log.Fatal(err)
	}
	first, err := orders.ID(ctx)
	fmt.Println(first, err)
	_, err = ids.Name(ctx, "tickets sequence order=strict")
	fmt.Println(errors.Is(err, katsubushi.ErrRefused))
	// Output:
	// 1000 <nil>
	// true
}

func ExampleIDs_Close() {
	ids, done := opened(965)
	defer done()
	fmt.Println(ids.Close())
	_, err := ids.ID(context.Background())
	fmt.Println(errors.Is(err, katsubushi.ErrClosed))
	// Output:
	// <nil>
	// true
}

// A load balancer sends no requests to a program that cannot give them ids.
func ExampleIDs_Err() {
	ids, done := opened(966)
	defer done()
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ids.Err(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	fmt.Println(ids.Err())
	// Output: <nil>
}

func ExampleIDs_Status() {
	ids, done := opened(967)
	defer done()
	for _, lane := range ids.Status().Lanes {
		fmt.Println("worker id", lane.Worker, "is", lane.State)
	}
	// Output: worker id 967 is serving
}

func ExampleStatus() {
	ids, done := opened(968)
	ids.Close()
	fmt.Println(ids.Status().Err != nil)
	done()
	// Output: true
}

func ExampleStatus_Workers() {
	ids, done := opened(969)
	defer done()
	fmt.Println(ids.Status().Workers())
	// Output: [969]
}

func ExampleName() {
	ids, done := opened(951)
	defer done()
	ctx := context.Background()
	tweets, err := ids.Name(ctx, "tweets snowflake layout=twitter")
	if err != nil {
		log.Fatal(err)
	}
	var source katsubushi.Source = tweets
	id, err := source.ID(ctx)
	fmt.Println(id != 0, err)
	// Output: true <nil>
}

// Several programs and daemons may share a sequence. Its values are unique, and not in order among them.
func ExampleName_ID() {
	ids, done := opened(952)
	defer done()
	ctx := context.Background()
	even, err := ids.Name(ctx, "even sequence start=2 step=2")
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		fmt.Println(even.ID(ctx))
	}
	// Output:
	// 2 <nil>
	// 4 <nil>
	// 6 <nil>
}

func ExampleName_IDs() {
	ids, done := opened(953)
	defer done()
	ctx := context.Background()
	lines, err := ids.Name(ctx, "lines sequence")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lines.IDs(ctx, 4))
	// Output: [1 2 3 4] <nil>
}

func ExampleName_Text() {
	ids, done := opened(954)
	defer done()
	ctx := context.Background()
	for _, definition := range []string{"sessions uuid7", "files ulid", "documents objectid", "secrets uuid4"} {
		name, err := ids.Name(ctx, definition)
		if err != nil {
			log.Fatal(err)
		}
		text, err := name.Text(ctx)
		fmt.Println(len(text), err)
	}
	// Output:
	// 36 <nil>
	// 26 <nil>
	// 24 <nil>
	// 36 <nil>
}

func ExampleName_String() {
	ids, done := opened(955)
	defer done()
	name, err := ids.Name(context.Background(), "sessions uuid7")
	fmt.Println(name, err)
	// Output: sessions uuid7 <nil>
}
