package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// kayac are the flags of kayac/go-katsubushi v2, which has their environment variables without a
// prefix.
var kayac = strings.Fields(`worker-id port sock idle-timeout http-port grpc-port debug-port enable-pprof enable-stats log-level redis
	min-worker-id max-worker-id`)

// TestEverySettingCanBeGivenByTheEnvironment: by a name of the same form for all, so that a new
// setting has one by itself.
func TestEverySettingCanBeGivenByTheEnvironment(t *testing.T) {
	for _, list := range []func(*options) []setting{settings, runSettings} {
		for _, s := range list(new(options)) {
			upper := strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
			names := []string{"KATSUBUSHI_" + upper}
			if bare := slices.Contains(kayac, s.name) || s.name == "bind"; bare {
				names = append(names, upper, strings.ToLower(upper))
			}
			for _, name := range []string{"KATSUBUSHI_" + upper, upper, strings.ToLower(upper)} {
				by, value, err := s.environment(environment(name, "17"))
				if known := slices.Contains(names, name); known != (by == name && value == "17") || !known && by+value != "" ||
					err != nil {
					t.Errorf("%s=17 sets -%s to %q by %q: %v", name, s.name, value, by, err)
				}
			}
			for i, first := range names {
				for _, second := range names[i+1:] {
					if _, _, err := s.environment(environment(first, "1", second, "2")); err == nil ||
						err.Error() != first+" and "+second+" are the same setting and have different values" {
						t.Errorf("%s=1 %s=2: %v", first, second, err)
					}
				}
			}
		}
	}
}

func TestHelpNamesTheVariables(t *testing.T) {
	for args, want := range map[string][]string{
		"-help all": {"[KATSUBUSHI_PORT, PORT] (default 11212)", "[KATSUBUSHI_LOOPS] (default",
			"[KATSUBUSHI_BIND, BIND]\n"},
		"run -help":     {"[KATSUBUSHI_MARGIN] (default 1s)", "[KATSUBUSHI_REDIS, REDIS]\n"},
		"inspect -help": {"[KATSUBUSHI_LAYOUT] (default katsubushi)"},
	} {
		var stdout bytes.Buffer
		run(strings.Fields(args), environment(), &stdout, nil)
		for _, text := range want {
			if !strings.Contains(stdout.String(), text) {
				t.Errorf("%s: no %q in\n%s", args, text, &stdout)
			}
		}
	}
}

func TestVariablesThatAreNoSettingsAreWarnedOf(t *testing.T) {
	unknown := []string{"KATSUBUSHI_ENGIEN", "KATSUBUSHI_PORT_", "KATSUBUSHI_REDIS_PORTS", "KATSUBUSHI_WORKERID"}
	env := environment("KATSUBUSHI_WORKER_ID", "7", "KATSUBUSHI_MARGIN", "1s", "KATSUBUSHI_EMPTY", "",
		"KATSUBUSHI_REQUIRE", "1", "KATSUBUSHI_VERSION", "3",
		"KATSUBUSHI_SERVICE_HOST", "10.3.2.1", "KATSUBUSHI_SERVICE_PORT", "11212", "KATSUBUSHI_SERVICE_PORT_MEMCACHED",
		"11212",
		"KATSUBUSHI_PORT", "tcp://10.3.2.1:11212", "KATSUBUSHI_PORT_11212_TCP", "tcp://10.3.2.1:11212",
		"KATSUBUSHI_PORT_11212_TCP_ADDR", "10.3.2.1",
		"KATSUBUSHI_IDS_PORT", "tcp://10.3.2.1:11212", "KATSUBUSHI_IDS_SERVICE_HOST", "10.3.2.1", "ENGIEN", "uring",
		"katsubushi_loop", "1")
	for _, name := range unknown {
		env[name] = "1"
	}
	p, _, _ := parse(settings, nil, env, nil)
	var want []string
	for _, name := range unknown {
		want = append(want, name+" is not a setting: katsubushi -h all lists their names")
	}
	if !slices.Equal(p.unknown, want) || len(p.problems) > 0 {
		t.Errorf("%q, want %q; %v", p.unknown, want, p.problems)
	}
}

// TestEverySubcommandReadsTheSameEnvironment: a value that cannot be right is refused by its name,
// and a name that is wrong is warned of.
func TestEverySubcommandReadsTheSameEnvironment(t *testing.T) {
	for _, args := range []string{"", "lease list", "run true", "state show", "healthcheck"} {
		got := complaints(t, strings.Fields(args), "KATSUBUSHI_MAX_WORKER_ID", "many", "LOG_LEVEL", "info", "log_level",
			"debug", "KATSUBUSHI_RDEIS", "redis://h/0")
		for _, want := range []string{
			"KATSUBUSHI_MAX_WORKER_ID=many: a worker id is allowed\n",
			"LOG_LEVEL and log_level are the same setting and have different values\n",
			"warning: KATSUBUSHI_RDEIS is not a setting",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q: nothing says %q:\n%s", args, want, got)
			}
		}
	}
}

func TestAFlagBeatsTheEnvironmentOfItsOtherName(t *testing.T) {
	p, _, err := parse(runSettings, []string{"-redis", "redis://flag/0"},
		environment("KATSUBUSHI_SERVER", "redis://variable/0"), nil)
	if err != nil || p.Store.URL != "redis://flag/0" || p.names["Store.URL"] != "-redis" {
		t.Errorf("%v %s of %s", err, p.Store.URL, p.names["Store.URL"])
	}
}

// TestProcessEnvironment: the whole way, from the process's environment to the socket and the log.
func TestProcessEnvironment(t *testing.T) {
	t.Setenv("KATSUBUSHI_WORKER_ID", "9")
	t.Setenv("BIND", "127.0.0.1")
	t.Setenv("PORT", "0")
	t.Setenv("KATSUBUSHI_CLAIM", "off")
	t.Setenv("KATSUBUSHI_LOG_FORMAT", "json")
	t.Setenv("KATSUBUSHI_LOGFORMAT", "json")
	p := runs(t, exec.Command(binary))
	p.WaitListening(t)
	if !strings.HasPrefix(p.Addr(), "127.0.0.1:") || statistic(t, p.Addr(), "lane_0_worker_id") != 9 ||
		p.Entry("KATSUBUSHI_LOGFORMAT is not a setting: katsubushi -h all lists their names") == nil {
		t.Errorf("it listens on %s:\n%s", p.Addr(), p.Logged())
	}
}
