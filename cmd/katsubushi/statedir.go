package main

import "path/filepath"

// noStateDir as -state-dir means no record. Write ./none for a directory of that name.
const noStateDir = "none"

// combineStateDir finds the state directory where the user has named none. Whether it can be used,
// the daemon finds out. Sequences are recorded there though worker ids are leased.
func (p *parsed) combineStateDir(env variables) {
	switch p.Counters.Dir = p.StateDir; p.StateDir {
	case noStateDir:
		p.Counters.Dir = ""
	case "":
		p.Counters.Dir, p.Counters.DirByDefault = defaultStateDir(env), p.given["counters"] == ""
	}
	switch {
	case p.StateDir == noStateDir:
		p.StateDir = ""
	case p.StateDir == "" && p.Store.URL == "":
		p.StateDir, p.StateDirByDefault = defaultStateDir(env), true
	}
}

// defaultStateDir returns the XDG base directory for what a program keeps between runs, or "". As the
// specification demands, it ignores paths that are not absolute.
func defaultStateDir(env variables) string {
	if dir := env["XDG_STATE_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "katsubushi")
	}
	if home := env["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "katsubushi")
	}
	return ""
}
