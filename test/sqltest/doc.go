// Package sqltest starts real PostgreSQL and MariaDB servers for tests. Each listens on a unix socket
// in a temporary directory of its own, and ends with its test or, if shared, with the test program.
package sqltest
