// Command goredisfollow asks a cluster for values of sequences with github.com/redis/go-redis,
// until its standard input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: os.Args[1:], ClusterStateReloadInterval: time.Second, MaxRedirects: 30,
	})
	defer client.Close()
	ctx, over := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		over()
	}()
	var workers sync.WaitGroup
	var mu sync.Mutex
	for worker := range 4 {
		workers.Go(func() {
			for i := worker; ctx.Err() == nil; i++ {
				name := []string{"orders", "items", "tickets", "users", "free"}[i%5]
				n := int64(1 + i%3)
				began := monotonic()
				last, err := client.IncrBy(context.Background(), name, n).Result()
				ended := monotonic()
				mu.Lock()
				if err != nil {
					fmt.Println("error", name, began, ended, err)
				} else {
					fmt.Println("value", name, began, ended, last, n)
				}
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	workers.Wait()
}

// monotonic returns CLOCK_MONOTONIC, which all processes share, in ns.
func monotonic() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}
