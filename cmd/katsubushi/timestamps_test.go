package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// The commands that make, list, show, raise and retire timestamps, in files and in etcd, by both of their words. They
// take ids and print ids.
func TestCommandsOfTimestamps(t *testing.T) {
	t.Parallel()
	const line = "tx snowflake layout=katsubushi order=strict node=1000"
	l := generator.Katsubushi()
	id := func(worker uint64) uint64 {
		v, err := l.Compose(generator.Parts{Time: time.UnixMilli(1_790_000_000_123), Worker: worker, Sequence: 5})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ours := id(1000)
	for what, counters := range map[string]string{
		"files": "file://" + t.TempDir(), "etcd": etcdtest.URL(t, etcdtest.Start(t)),
	} {
		for i, c := range []struct {
			args   string
			code   int
			stdout string // contained; "" = nothing
			stderr string // the same
		}{
			{"create " + line, exitOK, "active", "recorded in"},
			{"create ty snowflake layout=katsubushi order=strict node=1000", exitUsage, "",
				"node=1000 of layout katsubushi is that of tx"},
			{"create ty snowflake layout=twitter order=strict node=1000", exitOK, "active", "recorded in"},
			{"create pd snowflake layout=time:44,sequence:18 order=strict", exitOK,
				"pd snowflake layout=time:44,sequence:18 order=strict\n", "recorded in"},
			{"create again snowflake layout=sequence:18,time:44 order=strict", exitUsage, "", "time and behind it sequence"},
			{"create again snowflake layout=time:44,sequence:18,unit:1ms order=strict node=0", exitUsage, "",
				"node=0 of layout time:44,sequence:18 is that of pd"},
			{"create tx snowflake layout=katsubushi order=strict node=1001", exitUsage, "", "is not what is recorded"},
			{fmt.Sprint("raise tx ", ours), exitOK, fmt.Sprintf("%d  %d", ours, ours),
				fmt.Sprintf("no value below %d is issued any more", ours)},
			{fmt.Sprint("raise tx ", ours), exitFailure, "",
				fmt.Sprintf("is not above what is there: already no value below %d is issued", ours)},
			{fmt.Sprint("raise tx ", id(999)+1), exitFailure, "", "is not above what is there"}, // below ours
			{"raise pd 429164525386203143", exitOK, "429164525386203143  429164525386203143", "429164525386203143 is"},
			{"show tx", exitOK, "active until 2026-09-21T14:13:20.123Z", ""},
			{"list", exitOK, "active until 2021-11-17T07:05:41.494Z", ""},
			{"list -json", exitOK, fmt.Sprintf(`"name":"tx","definition":"%s","next":"%d","floor":"%d"`, line, ours, ours), ""},
			{"show tx -json", exitOK, `"until":"2026-09-21T14:13:20.123Z"`, ""},
			{fmt.Sprint("raise tx ", id(1001)), exitOK, fmt.Sprint(l.AtPosition((l.PositionOf(ours)|4095)+1, 1000)),
				"is issued"},
			{"raise tx 9223372036854775807", exitFailure, "", "the values of sequence tx are 1 to"},
			{"retire tx -force", exitOK, "retired", "recorded in"},
			{fmt.Sprint("raise tx ", ours*2), exitFailure, "", "the sequence is retired"},
			{"create " + line, exitFailure, "", "tx is retired: the name cannot be used again"},
		} {
			words := append([]string{[]string{"generator", "name"}[i%2]}, strings.Fields(c.args)...)
			words = append(words, "-counters", counters, "-state-any-disk")
			code, o, e, late := patiently(environment(), words...)
			if !late && (code != c.code || !strings.Contains(o, c.stdout) || !strings.Contains(e, c.stderr) ||
				(c.stderr == "") != (e == "") || (c.stdout == "") != (o == "")) {
				t.Errorf("%s, %s: exit code %d, want %d\n%s%s", what, c.args, code, c.code, o, e)
			}
		}
	}
}
