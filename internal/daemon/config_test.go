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
