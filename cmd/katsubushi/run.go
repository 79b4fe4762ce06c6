package main

import (
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/leaserun"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

const runIntro = `usage: katsubushi run -store URL [flags] -- COMMAND [ARGUMENT...]

Leases a worker id for another program and runs it: {} in its arguments stands for the worker id, which is in the environment as
` + leaserun.WorkerIDVariable + ` too. ` + "`katsubushi lease init`" + ` makes the pool, with the same settings; give programs of another kind another pool
(?ns=NAME). Signals go to the program. When it ends, whatever it started is killed and the worker id is given back. On Linux a cgroup of its
own holds the program, where one can be made; the log says which, or why not. A program that reads the terminal gets it, and ^Z stops nothing.

The program is killed, with all that it started, before its window of time can become somebody else's: when the lease could not be extended
in time, was lost, or is used by a copy of this process. Where there is time it gets a TERM first.

Exit codes: the program's; 128 + N if signal N ended it; 75 if it had to end because of its lease: start again; 126 and 127 if it cannot be
started or is not found; 2 for wrong settings.

The program does not get those of katsubushi's variables that tell how to log in to the store. Every program sees a
password in -redis or -store, with ps: name a file, or use the environment.

Not promised, since the program does not look at its window by itself:
  - if this process or the machine is frozen (SIGSTOP, a paused container or virtual machine), nobody watches, and a program that goes on
    may repeat ids that others issue;
  - the program must go by this host's clock, to within -margin, and look itself to its own ids when that is set back;
  - if this process is killed (SIGKILL), the kernel kills the program, but not what the program started, and not a set-user-ID program.
    So the command should be the generator itself: sh -c 'exec program {}'. What is left in a cgroup is killed when run is started again in
    the same place, as by a supervisor or in the same shell. Elsewhere than on Linux the kernel does neither.

`

// runProgram is `katsubushi run`: it leases a worker id for another program, as `yaraus run` does.
func runProgram(p *call) int {
	log, queue := openLog(p.stderr, p.options)
	defer queue.Close(flushLimit)
	pool := p.Store
	pool.Layout, pool.Log = p.Layout.Fingerprint(), log
	c := p.run
	c.Replacement, c.Command, c.Log, c.Hidden = p.replacement, p.words, pool.Log, loginVariables(p.env)
	c.Request = workerid.Request{Min: pool.Min, Max: pool.Max}
	c.Lease, c.Heartbeat = pool.Lease, pool.Interval()
	c.Now = func() int64 { return time.Now().UnixMilli() } // what the program sees
	c.Clock = clock.New()
	pool.Now = c.Clock.Now // what the pool is told
	p.leaseProblems(pool)
	p.report("Run.", c.Validate())
	if p.refused() {
		return exitUsage
	}
	store, err := stores.Open(pool)
	if err != nil {
		p.problem("%w", err)
		p.refused()
		return exitUsage
	}
	defer store.Close()
	c.Store = store
	for _, note := range slices.Concat(p.notes, p.unknown) {
		c.Log.Warn(note)
	}
	signals := make(chan os.Signal, 16)
	for _, s := range leaserun.Signals() {
		if !signal.Ignored(s) { // as under nohup: the program ignores it too
			signal.Notify(signals, s)
		}
	}
	c.Signals = signals
	code, err := leaserun.Run(c)
	if err != nil {
		c.Log.Error(err.Error())
	}
	return code
}

// loginVariables returns the names of our variables that tell how to log in to a store: the program must
// not know.
func loginVariables(env variables) (names []string) {
	for _, s := range everySetting() {
		for _, name := range s.variables() {
			url, login := env[name], false
			switch s.name {
			case "store", "redis", "server", "counters":
				login = strings.Contains(url, "@") || strings.Contains(strings.ToLower(url), "password")
			default:
				login = strings.HasSuffix(s.name, "password-file") || strings.HasSuffix(s.name, "-key")
			}
			if login {
				names = append(names, name)
			}
		}
	}
	return names
}

// everySetting returns the settings of all subcommands.
func everySetting() []setting {
	o := new(options)
	return slices.Concat(settings(o), runSettings(o))
}

// runSettings returns the daemon's settings about leases, run's own settings, and yaraus's names for
// them.
func runSettings(o *options) []setting {
	list := slices.DeleteFunc(settings(o), func(s setting) bool {
		same := func(of setting) bool { return of.name == s.name && of.name != "lanes" }
		return !slices.ContainsFunc(slices.Concat(storeSettings(o), redisSettings(o), layoutSettings(o)), same) &&
			s.name != "log-level" && s.name != "log-format" && s.name != "config"
	})
	for yaraus, ours := range map[string]string{
		"server": "redis", "min": "min-worker-id", "max": "max-worker-id", "interval": "heartbeat", "expire": "lease",
	} {
		i := slices.IndexFunc(list, func(s setting) bool { return s.name == ours })
		list = append(list, setting{name: yaraus, field: list[i].field,
			set: list[i].set, help: "yaraus's name of -" + ours})
	}
	return append(list,
		setting{name: "margin", field: "Run.Margin", def: "1s",
			set: duration(&o.run.Margin),
			help: "how far the program's clock may be off, or its ids ahead of the clock: it lives only that far " +
				"inside its window"},
		setting{name: "stop-timeout", field: "Run.StopTimeout", def: "10s",
			set: duration(&o.run.StopTimeout),
			help: "how long the program may take to end after a TERM, passed on or sent because of the lease, before " +
				"it is killed"},
		setting{name: "delay", help: "of yaraus, not needed: -margin is waited for where somebody else had the worker id",
			set: ignored},
	)
}
