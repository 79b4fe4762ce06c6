package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		// kayac/go-katsubushi's own example
		{[]string{"-json", "8070450532247928832"}, exitOK,
			`{"id":"8070450532247928832","time":"2075-12-22T04:49:08.608Z","worker_id":0,"sequence":0,"kind":"snowflake"}` +
				"\n"},
		{[]string{"-json", "0"}, exitOK,
			`{"id":"0","time":"2015-01-01T00:00:00Z","worker_id":0,"sequence":0,"kind":"snowflake"}` + "\n"},
		{[]string{"4198403"}, exitOK,
			"ID       TIME                      WORKER ID  SEQUENCE  KIND\n4198403  2015-01-01T00:00:00.001Z  1          3   " +
				"      snowflake\n"},
		{[]string{"-layout", "twitter", "-json", "1212092628029698048"}, exitOK,
			`{"id":"1212092628029698048","time":"2019-12-31T19:26:16.771Z","worker_id":327,"sequence":0,"kind":"snowflake"}` +
				"\n"},
		{[]string{"-layout", "sonyfake", "1"}, exitUsage, ""},
		{[]string{"-layout", "time:44,sequence:18", "-json", "429164525386203142"}, exitOK, // PD's
			`{"id":"429164525386203142","time":"2021-11-17T07:05:41.494Z","worker_id":0,"sequence":6,"kind":"snowflake"}` +
				"\n"},
		{[]string{"-layout", "node:4,time:32,sequence:20,unit:1s", "-json", "15293378082111565"}, exitOK,
			`{"id":"15293378082111565","time":"2023-11-14T22:13:20Z","worker_id":3,"sequence":77,"kind":"snowflake"}` +
				"\n"},
		{[]string{"-json", "x", "0"}, exitUsage,
			`{"id":"0","time":"2015-01-01T00:00:00Z","worker_id":0,"sequence":0,"kind":"snowflake"}` + "\n"},
		{nil, exitUsage, ""},
		{[]string{"01a200c6-44c0-73c1-aa5f-edcba9876610", "01M80CCH607GD9FYVJX9GXJCGG", "01m80cch607gd9fyvjx9gxjcgg",
			"6b023f0b720f06a5fedcba98", "01234567-89AB-4DEF-BEDC-BA9876543210"}, exitOK, "" +
			"ID                                    TIME                      WORKER ID  SEQUENCE  KIND\n" +
			"01a200c6-44c0-73c1-aa5f-edcba9876610  2026-11-22T01:02:03.456Z  677        961       uuid7\n" +
			"01M80CCH607GD9FYVJX9GXJCGG            2026-11-22T01:02:03.456Z  677        961       ulid\n" +
			"01m80cch607gd9fyvjx9gxjcgg            2026-11-22T01:02:03.456Z  677        961       ulid\n" +
			"6b023f0b720f06a5fedcba98              2026-11-22T01:02:03.456Z  677        961       objectid\n" +
			"01234567-89AB-4DEF-BEDC-BA9876543210  -                         -          -         uuid4: random\n"},
		{[]string{"-layout", "sonyflake", "-json", "01a200c6-44ba-7c10-8a97-fb72ea61da10",
			"01234567-89ab-4def-bedc-ba9876543210"}, exitOK, "" +
			`{"id":"01a200c6-44ba-7c10-8a97-fb72ea61da10","time":"2026-11-22T01:02:03.45Z","worker_id":677,"sequence":193,` +
			`"kind":"uuid7"}` + "\n" +
			`{"id":"01234567-89ab-4def-bedc-ba9876543210","kind":"uuid4"}` + "\n"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"inspect"}, c.args...), environment(), &stdout, &stderr); code != c.code ||
			stdout.String() != c.want {
			t.Errorf("%q: exit code %d, %q %s", c.args, code, stdout.String(), stderr.String())
		}
	}
}

func TestInspectRefusesWhatIsNoID(t *testing.T) {
	const syntax = ": not an id: a decimal number of at most 64 bits is one, and so are a UUID (36 characters), a ULID " +
		"(26, the first at most 7) and an ObjectID (24 hexadecimal digits)\n"
	const version = ": not a UUID of RFC 9562, version 4 or 7: katsubushi makes no others\n"
	for text, want := range map[string]string{
		"x":                                    syntax,
		"":                                     syntax,
		"-1":                                   syntax,
		"18446744073709551616":                 syntax,
		"01a200c6-44c0-73c1-aa5f-edcba987661":  syntax,
		"01a200c6-44c0-73c1-aa5f-edcba987661g": syntax,
		"01a200c644c0-73c1-aa5f--edcba9876610": syntax,
		"81M80CCH607GD9FYVJX9GXJCGG":           syntax, // more than 128 bits
		"01M80CCH607GD9FYVJX9GXJCGU":           syntax, // no letter of Crockford's
		"6b023f0b720f06a5fedcba9g":             syntax,
		"6b023f0b720f06a5fedcba9ſ":             syntax,  // it becomes an S
		"c232ab00-9414-11ec-b3c8-9f6bdeced846": version, // RFC 9562's example of version 1
		"01a200c6-44c0-73c1-2a5f-edcba9876610": version, // another variant
	} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"inspect", "-json", "--", text}, environment(), &stdout, &stderr); code != exitUsage ||
			stderr.String() != text+want || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, %q, %q", text, code, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"inspect", "-worker-bits", "31", "-sequence-bits", "25", "6b023f0b720f06a5fedcba98"},
		environment(), &stdout, &stderr); code != exitUsage ||
		!strings.Contains(stderr.String(),
			"6b023f0b720f06a5fedcba98: generator: 31 worker + 25 sequence bits: objectid has 54 for both") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}
