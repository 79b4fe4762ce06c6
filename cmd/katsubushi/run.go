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

Leases a worker id for another program and runs it. {} in the arguments stands for the worker id, which is also in the environment as
` + leaserun.WorkerIDVariable + `. ` + "`katsubushi lease init`" + ` makes the pool, with the same settings; give programs of another kind another pool
(?ns=NAME). Signals go to the program. When it ends, katsubushi kills all processes that it started and gives the worker id back. On Linux the
program runs in a cgroup of its own if katsubushi can make one; the log names it, or says why not. The program can read the terminal, and ^Z
stops nothing.

katsubushi kills the program, with all processes that it started, before another holder can get its window of time: when the lease was not
extended in time, was lost, or is used by a copy of this process. If there is time, the program gets a TERM first.

Exit codes: the program's; 128 + N if signal N ended it; 75 if it had to end because of its lease: start again; 126 if it cannot be started;
127 if it is not found; 2 for wrong settings.

The program does not get those of katsubushi's variables that tell how to log in to the store. Every program can see a
password in -redis or -store with ps: name a file, or use the environment.

Not promised, because the program does not check its window itself:
  - if this process or the machine is frozen (SIGSTOP, a paused container or virtual machine), nothing watches the window, and a program that
    goes on may repeat ids that others issue;
  - the program must use this host's clock, to within -margin, and must itself avoid repeating ids when that clock is set back;
  - if this process is killed (SIGKILL), the kernel kills the program, but not the processes that it started, and not a set-user-ID program.
    So the command should be the generator itself: sh -c 'exec program {}'. The next run in the same place, under a supervisor or in the same
    shell, kills the processes that are left in the cgroup. On systems other than Linux the kernel does neither.

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
