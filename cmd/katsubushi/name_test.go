package main

import ()

// runName runs `katsubushi name` with a state directory.
func runName(dir string, args ...string) (code int, stdout, stderr string) {
	code, stdout, stderr, _ = patiently(environment("KATSUBUSHI_STATE_DIR", dir, "KATSUBUSHI_STATE_ANY_DISK", "true"),
		append([]string{"name"}, args...)...)
	return code, stdout, stderr
}
