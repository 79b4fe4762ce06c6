package main

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// predecessor is the path of a program that this one replaces. `make test-migration` downloads and
// names them; other runs go without, and have random histories beside the formats of both
// (workerid/redis).
func predecessor(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s names no program", variable)
	}
	return path
}

// launchOld runs another program's daemon on a free port.
func launchOld(t *testing.T, command ...string) (p *process, addr string) {
	t.Helper()
	port := freePort(t)
	for i, arg := range command {
		if arg == "PORT" {
			command[i] = port
		}
	}
	return runs(t, exec.Command(command[0], command[1:]...)), "127.0.0.1:" + port
}

// roll replaces a fleet daemon by daemon under load, and goes back once.
func roll(t *testing.T, old func() (*process, string), leasing func() *process) {
	type member struct {
		*process
		*load
	}
	c := census{lanes: 1, hasty: true}
	var fleet []member
	ours := func() (*process, string) {
		p := leasing()
		p.WaitListening(t)
		return p, p.Addr()
	}
	come := func(launch func() (*process, string)) {
		p, addr := launch()
		await(t, "the daemon listens", func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				conn.Close()
			}
			return err == nil || p.HasEnded()
		})
		m := member{p, c.load(t, addr, 2, 50)}
		m.awaitMore(t, 50_000)
		fleet = append(fleet, m)
	}
	leave := func(i int) {
		m := fleet[i]
		if err := m.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-m.Ended()
		m.clients.Wait()
		fleet = slices.Delete(fleet, i, i+1)
	}
	for range 3 {
		come(old)
	}
	for _, next := range []func() (*process, string){ours, ours, old, ours, ours} { // the third is taken back
		leave(0)
		come(next)
	}
	for range fleet {
		leave(0)
	}
	c.verdict(t)
}

func TestProcessMigrationFromKayac(t *testing.T) {
	t.Parallel()
	kayac := predecessor(t, "KATSUBUSHI_KAYAC")
	url := redistest.Start(t).URL()
	pool := redisPool(t, url, "-max-worker-id", "3") // as many as there are daemons
	roll(t, func() (*process, string) {
		return launchOld(t, kayac, "-redis", url, "-min-worker-id", "1", "-max-worker-id", "3", "-port", "PORT")
	}, func() *process {
		return pool.launch(t, "-hold-raus", redistest.Namespace(t))
	})
}

func TestProcessMigrationFromYaraus(t *testing.T) {
	t.Parallel()
	yaraus := predecessor(t, "KATSUBUSHI_YARAUS")
	url := redistest.Start(t).URL()
	if out, err := exec.Command(yaraus, "init", "-server", url, "-min", "1", "-max", "5").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pool := poolOf{append([]string{"-redis", url}, shortPool...)}
	old := func() (*process, string) {
		return launchOld(t, yaraus, "run", "-server", url, "-min", "1", "-max", "5", "--", predecessor(t, "KATSUBUSHI_KAYAC"),
			"-worker-id", "{}", "-port", "PORT")
	}
	first, _ := old()
	await(t, "yaraus has a worker id", func() bool { return first.HasEnded() || len(first.Logged()) > 0 })
	pool.says(t, "made from a pool of yaraus's", "init", "-how", "new")
	roll(t, old, func() *process { return pool.launch(t) })
	first.end(t, syscall.SIGTERM)
	pool.says(t, "yaraus's clients may not come back", "init", "-how", "migrated")
}
