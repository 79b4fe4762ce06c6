package main

import (
	"regexp"
	"runtime/debug"
)

// untagged is the version of a build of a commit without a tag. libmemcached takes a major version of 0
// for a failure to parse, and its memcapable takes less than 1.6 for a memcached of long ago, which
// answered differently; so versions begin after kayac's 2.
const untagged = "3.0.0"

// version is N.N.N: clients parse it when they connect. It is the tag's, as go install NAME@TAG and a
// build in a checkout record it; where there is neither, -ldflags "-X main.version=..." sets it.
var version = untagged

func init() {
	if info, _ := debug.ReadBuildInfo(); version == untagged && info != nil {
		version = tagged(info.Main.Version)
	}
}

var release = regexp.MustCompile(`^v([1-9]\d*\.\d+\.\d+)(-rc\.?\d+)?$`)

// tagged returns the version in a tag, without what comes before a release.
func tagged(tag string) string {
	if m := release.FindStringSubmatch(tag); m != nil {
		return m[1]
	}
	return untagged
}

// commit is what this binary was built from where Go found no checkout, as in an image whose context has
// no .git: -ldflags "-X main.commit=..." sets it.
var commit string

// describeVersion is what -version prints: the version, the commit and its date, and the version of Go
// that this binary was built with, as far as the build recorded them. Where it
// recorded no commit, the one given counts.
func describeVersion(info *debug.BuildInfo, commit string) string {
	recorded, date, modified, goVersion := "", "unknown", "", "unknown"
	if info != nil {
		goVersion = info.GoVersion
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				recorded = s.Value
			case s.Key == "vcs.time":
				date = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = ", modified"
			}
		}
	}
	switch {
	case recorded != "":
		commit = recorded + modified
	case commit == "": // built from a module or an archive, not from a checkout
		commit = "unknown"
	}
	return "katsubushi version: " + version + "\ncommit: " + commit + "\ndate: " + date + "\ngo: " + goVersion + "\n"
}
