package main

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// TestProcessUpgradeLeased: the new process leases a worker id of its own; without a free one the old process
// goes on. The old one's comes free at the end. Ids on a connection rise, although the worker id is another
// one and the old process was far ahead of the clock. A name that is declared while the new process waits is one of its
// names.
func TestProcessUpgradeLeased(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	pool := []string{"-redis", server.URL(), "-min-worker-id", "1", "-max-worker-id", "2"}
	poolOf{pool}.init(t)
	names := filepath.Join(t.TempDir(), "names")
	declare := func(lines string) {
		tempfile.Write(t, names, lines)
	}
	declare("early uuid4\n")
	u := startUpgradable(t, append(pool, "-max-run-ahead", "20s", "-names", names)...)
	ids := newAsker(t, "tcp", u.Addr())
	conn, r := ids.Conn, ids.r
	worker := func(id uint64) uint64 { return generator.Katsubushi().Decompose(id).Worker }
	for range 40 { // 40 million ids: some ten seconds
		io.WriteString(conn, strings.Repeat("ids 10000\r\n", 100))
		for ends := 0; ends < 100; {
			line, err := r.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "IDS ") && line != "END\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if line == "END\r\n" {
				ends++
			}
		}
	}
	if had := worker(ids.id(t)); had != 1 {
		t.Errorf("it has worker id %d", had)
	}

	rival := launch(t, pool...)
	rival.WaitListening(t)
	code, said := u.upgrade(t, "-timeout", "2s")
	if id := ids.id(t); code != exitFailure || !strings.Contains(said, "goes on") || worker(id) != 1 {
		t.Errorf("without a free worker id: exit code %d, %s; id %d", code, said, id)
	}
	waits := func() int { return strings.Count(u.Logged(), `"reason":"no worker id is free"`) }
	before := waits()
	other := dial(t, "tcp", u.Addr())
	upgraded, wrong := make(chan bool), make(chan string, 1)
	go func() { // beside the first upgrade below
		for ; waits() == before; time.Sleep(time.Millisecond) {
		}
		declare("early uuid4\nlate uuid7\n")
		syscall.Kill(u.Process.Pid, syscall.SIGHUP)
		for !strings.Contains(u.Logged(), "late uuid7") {
			time.Sleep(time.Millisecond)
		}
		rival.Process.Signal(syscall.SIGTERM)
		for r := bufio.NewReader(other); ; {
			io.WriteString(other, "get late\r\n")
			line, err := r.ReadString('\n')
			if err != nil || line != "VALUE late 0 36\r\n" {
				wrong <- fmt.Sprintf("%q, %v", line, err)
				return
			}
			r.ReadString('\n')
			r.ReadString('\n')
			select {
			case <-upgraded:
				close(wrong)
				return
			default:
			}
		}
	}()

	for _, next := range []uint64{2, 1} {
		ids.id(t)
		u.succeed(t)
		if id := ids.id(t); worker(id) != next {
			t.Errorf("id %d of worker id %d, want worker id %d", id, worker(id), next)
		}
		if next == 2 {
			close(upgraded)
			if answer, some := <-wrong; some {
				t.Errorf("a name that the old process was told of meanwhile: %s", answer)
			}
			await(t, "both have reloaded", func() bool { return strings.Count(u.Logged(), `"msg":"reloaded"`) == 2 })
		}
		_, list, stderr := poolOf{pool}.lease("list")
		if strings.Contains(u.Logged(), "worker ids are not given back") { // Redis did not answer
			t.Skip(u.Logged())
		}
		if strings.Count(list, " held ") != 1 {
			t.Errorf("one worker id should be held: %s%s", list, stderr)
		}
	}

	server.Pause()
	await(t, "an upgrade is refused because the lease is not extended", func() bool {
		code, said := u.upgrade(t, "-timeout", "1s")
		return code == exitFailure && strings.Contains(said, "lane 0 is ")
	})
	server.Resume()
	await(t, "it issues ids", func() bool {
		io.WriteString(conn, "get id\r\n")
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(line, "VALUE ") {
			return false
		}
		r.ReadString('\n')
		r.ReadString('\n')
		return true
	})
}
