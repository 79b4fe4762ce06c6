// Package redistest starts real Redis servers for tests: alone, with replicas, watched by
// Sentinels, as a cluster; and a proxy that holds, drops and cuts what goes to and from them.
// Everything listens on loopback, lives in temporary directories and ends with its test.
package redistest
