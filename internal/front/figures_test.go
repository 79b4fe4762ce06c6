package front

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// shown returns a line for each figure: both names, whether it only grows, and the value.
func shown(t *testing.T, show func(func(figure.Figure))) string {
	t.Helper()
	var lines []string
	show(func(f figure.Figure) {
		if f.Help == "" && f.Metric != "" || f.Count != strings.HasSuffix(f.Metric, "_total") {
			t.Errorf("%+v", f)
		}
		lines = append(lines, fmt.Sprint(f.Stat, " ", f.Metric, " ", f.Value))
	})
	return strings.Join(lines, "\n")
}

// TestFigures: each counter has its own.
func TestFigures(t *testing.T) {
	w := newFront(t, func(c *Config, _ *Given) { c.MaxConnections, c.MaxBufferMemory = 77, 5<<20 })
	n := &w.Connections
	n.IdleClosed.Store(1)
	n.Datagrams.Store(2)
	n.DatagramsDropped.Store(3)
	n.Current.Store(4)
	n.Total.Store(5)
	n.Refused.Store(6)
	n.AcceptErrors.Store(7)
	n.BytesRead.Store(8)
	n.BytesWritten.Store(9)
	want := `idle_closed_connections connections_idle_closed_total 1
memory_closed_connections connections_memory_closed_total 0
buffer_memory_bytes buffer_memory_bytes 0
buffer_memory_limit_bytes buffer_memory_limit_bytes 5242880
udp_datagrams udp_datagrams_total 2
udp_dropped udp_dropped_total 3
 connections 4
 connections_limit 77
 connections_accepted_total 5
 connections_refused_total 6
 accept_errors_total 7
 read_bytes_total 8
 written_bytes_total 9`
	if got := shown(t, w.Figures); got != want {
		t.Errorf("%s", got)
	}
	if got := shown(t, w.LoginFigures) + shown(t, w.CertificateFigures); got != "" {
		t.Errorf("without users and a certificate: %s", got)
	}
}

// TestLatencyOfNames: with each engine, each name has that of its own answers, whoever asks for it.
func TestLatencyOfNames(t *testing.T) {
	for _, engine := range enginesHere() {
		w := newFront(t, func(c *Config, _ *Given) { c.Engine = engine })
		var list []issuer.Declared
		for _, name := range []string{"orders", "bills", "idle"} {
			def := kinds.Declared(counter.Definition{Name: name})
			list = append(list, issuer.Declared{Definition: def, From: w.issuer})
		}
		w.catalog.Declare(list)
		address := serve(t, w)
		for range 100 { // a connection's first answer is measured
			for _, name := range []string{"orders", "bills", "id"} {
				says(t, dial(t, "tcp", address), "get "+name+"\r\n", "VALUE "+name+" 0 ")
			}
		}
		// the last ones may be under way to where they are counted
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if n, _ := w.catalog.Names()[1].Took.Total(); n > 0 {
				break
			}
		}
		for i, want := range []bool{true, true, false} {
			name := w.catalog.Names()[i]
			if n, took := name.Took.Total(); n > 0 != want || took > 0 != want || n > 300 {
				t.Errorf("%s: %d answers for %s took %v", engine, n, name.Name, took)
			}
		}
	}
}

// TestCountsOfAllLoops are added up, those of the UDP port too; so is the latency of the loops.
func TestCountsOfAllLoops(t *testing.T) {
	w := newFront(t, func(c *Config, _ *Given) { c.Loops = 2 })
	if len(w.commands) != 3 || len(w.latency) != 2 || len(w.ports[0].sessions) != 2 {
		t.Fatalf("two loops have %d counters, %d histograms", len(w.commands), len(w.latency))
	}
	for loop := range w.commands {
		w.commands[loop].Add(protocol.CmdGet, 10+loop)
	}
	if n := w.Counts(); n[protocol.CmdGet] != 33 || n[protocol.CmdSet] != 0 {
		t.Errorf("%d gets", n[protocol.CmdGet])
	}
	w.latency[0].Observe(time.Second, 4)
	w.latency[1].Observe(time.Second, 6)
	if n := w.Latency().Count(); n != 10 {
		t.Errorf("%d answers", n)
	}
}

// TestFiguresOfLoginsAndTheCertificate: only where there are some.
func TestFiguresOfLoginsAndTheCertificate(t *testing.T) {
	cert, key, _ := selfsigned.Files(t)
	auth := tempfile.Write(t, "auth", "ann:secret\n")
	w := newFront(t, func(c *Config, _ *Given) { c.TLSCert, c.TLSKey, c.AuthFile = cert, key, auth })
	defer w.End()
	w.logins.busy.Store(7)
	want := "login_comparisons login_comparisons_total 0\nlogins_waiting logins_waiting 0\nlogins_busy logins_busy_total 7"
	if got := shown(t, w.LoginFigures); got != want {
		t.Errorf("%s", got)
	}
	_, until := w.TLS.Valid()
	w.CertificateFigures(func(f figure.Figure) {
		left := time.Duration(f.Number() * float64(time.Second))
		if f.Stat != "" {
			left = time.Duration(f.Value.(int64)+1) * 24 * time.Hour
			if left-24*time.Hour > time.Until(until) {
				t.Errorf("%+v: more days than are left until %v", f, until)
			}
			return
		}
		if d := time.Until(until) - left; d.Abs() > time.Minute {
			t.Errorf("%+v, and it is valid until %v", f, until)
		}
	})
}
