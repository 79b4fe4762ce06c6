package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// TestValidateReadsNoFile: Validate would wait forever on a pipe that nobody writes to. Only
// ReadSecrets reads the files, once, and its errors are reported together with the others.
func TestValidateReadsNoFile(t *testing.T) {
	dir := t.TempDir()
	c := testConfig()
	c.TLSCert, c.TLSKey, c.AuthFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "auth")
	if err := c.Validate(); err != nil {
		t.Errorf("files that are not there: %v", err)
	}
	fields := func(err error) (all string) {
		for _, p := range problem.Of(err) {
			all += p.Field + " "
		}
		return all
	}
	if got := fields(c.ReadSecrets()); got != "TLSCert TLSKey AuthFile " {
		t.Errorf("ReadSecrets blames %q", got)
	}
	c.MaxRunAhead = time.Hour
	if _, err := New(t.Context(), c); fields(err) != "MaxRunAhead TLSCert TLSKey AuthFile " {
		t.Errorf("New blames %q", fields(err))
	}
	tempfile.Write(t, c.AuthFile, "ann:secret\n")
	if got := fields(c.ReadSecrets()); got != "TLSCert TLSKey " {
		t.Errorf("ReadSecrets blames %q", got)
	}
	os.Remove(c.AuthFile)
	if err := c.ReadSecrets(); strings.Contains(err.Error(), "auth") {
		t.Errorf("the users were read twice: %v", err)
	}
}

// TestRecordsNeedADisk: check-config says what the start would say of a directory whose files a reboot erases.
func TestRecordsNeedADisk(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := testConfig()
	c.StateDir, c.Counters.URL, c.AnyDisk = dir, "file://"+dir, false
	const each = " is on tmpfs: not a local disk"
	if err := c.ReadSecrets(); err == nil || strings.Count(err.Error(), dir+each) != 2 {
		t.Errorf("%v, want both directories' file system", err)
	}
	if c.AnyDisk = true; c.ReadSecrets() != nil {
		t.Error(c.ReadSecrets())
	}
	c.AnyDisk, c.StateDir, c.Counters.URL = false, filepath.Join(dir, "later"), ""
	if err := c.ReadSecrets(); err != nil {
		t.Errorf("a directory that is not there yet: %v", err)
	}
}
