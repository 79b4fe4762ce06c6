// Package systemd runs deploy/katsubushi.service under a real systemd: that of a container whose files
// are this host's, with a layer above them for what changes. It needs root and systemd-nspawn, and runs
// only if it is asked for: make test-systemd.
package systemd
