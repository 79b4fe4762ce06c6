package main

import "runtime/debug"

// version is N.N.N: clients parse it when they connect. libmemcached takes a major version of 0
// for a failure to parse, and its memcapable takes less than 1.6 for a memcached of long ago, which
// answered differently; so versions begin after kayac's 2. Release builds set it with
// -ldflags "-X main.version=...".
var version = "3.0.0"

// describeVersion is what -version prints: the version, the commit and the version of Go that this
// binary was built from, as far as the build recorded them.
func describeVersion(info *debug.BuildInfo) string {
	commit, modified, goVersion := "", "", "unknown"
	if info != nil {
		goVersion = info.GoVersion
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = ", modified"
			}
		}
	}
	if commit == "" { // built from a module or an archive, not from a checkout
		commit, modified = "unknown", ""
	}
	return "katsubushi version: " + version + "\ncommit: " + commit + modified + "\ngo: " + goVersion + "\n"
}
