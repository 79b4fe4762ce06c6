package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRunTakesYarausNames: each of yaraus's flags sets what ours sets.
func TestRunTakesYarausNames(t *testing.T) {
	for _, args := range [][]string{
		{"-redis", "redis://h/3", "-min-worker-id", "3", "-max-worker-id", "4", "-lease", "70s", "-heartbeat", "7s"},
		{"-server", "redis://h/3", "-min", "3", "-max", "4", "-expire", "70s", "-interval", "7s"},
	} {
		p, _, err := parse(runSettings, args, environment(), nil)
		if err != nil || len(p.problems) > 0 {
			t.Fatalf("%q: %v %q", args, err, p.problems)
		}
		got := fmt.Sprintln(p.Store.URL, p.Store.Min, p.Store.Max, p.Store.Lease, p.Store.Interval())
		if got != "redis://h/3 3 4 1m10s 7s\n" {
			t.Errorf("%q: %s", args, got)
		}
	}
}

// TestTheProgramCannotLogIn: run hands its program no variable of ours with a password, or the file of one,
// and every other variable.
func TestTheProgramCannotLogIn(t *testing.T) {
	env := environment()
	for name, hidden := range map[string]string{
		"KATSUBUSHI_REDIS": "redis://:pass@h", "KATSUBUSHI_STORE": "etcd://ann:pass@h",
		"KATSUBUSHI_SERVER": "redis://:pass@h", "REDIS": "redis://:pass@h",
		"redis": "redis+sentinel://h?sentinel_password=pass", "KATSUBUSHI_COUNTERS": "postgres://ann:pass@h/db",
		"KATSUBUSHI_STORE_PASSWORD_FILE": "/pass", "KATSUBUSHI_REDIS_PASSWORD_FILE": "/pass",
		"KATSUBUSHI_STORE_KEY": "/key",
	} {
		env[name] = hidden
	}
	got := loginVariables(env)
	for name := range env {
		if !slices.Contains(got, name) {
			t.Errorf("the program gets %s=%s", name, env[name])
		}
	}
	for _, name := range []string{"REDIS", "redis", "KATSUBUSHI_REDIS", "KATSUBUSHI_STORE"} {
		env[name] = "redis://h"
	}
	env["OTHER"], env["KATSUBUSHI_LEASE"] = "redis://:pass@h", "1m"
	got = loginVariables(env)
	for name := range strings.FieldsSeq("REDIS redis KATSUBUSHI_REDIS KATSUBUSHI_STORE OTHER KATSUBUSHI_LEASE") {
		if slices.Contains(got, name) {
			t.Errorf("the program does not get %s=%s", name, env[name])
		}
	}
}
