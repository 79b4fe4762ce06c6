package main

import (
	"bufio"
	"crypto/tls"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// TestProcessUpgradeEncrypted: encrypted connections cannot move. They end in order; plain ones, of a unix
// socket here, go on, and the socket's file stays.
func TestProcessUpgradeEncrypted(t *testing.T) {
	t.Parallel()
	cert, key, _ := selfsigned.Files(t)
	sock := filepath.Join(t.TempDir(), "s")
	u := startUpgradable(t,
		append(onDisk(t), "-worker-id", "34", "-sock", sock, "-redis-port", freePort(t), "-tls-cert", cert, "-tls-key",
			key)...)
	ids := newAsker(t, "unix", sock)
	ids.id(t)
	u.Says(t, "redis listening")
	address, _ := u.Entry("redis listening")["address"].(string)
	encrypted, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer encrypted.Close()
	encrypted.SetDeadline(time.Now().Add(5 * time.Minute))
	over := bufio.NewReader(encrypted)
	s := stream{conn: encrypted, resp: true}
	io.WriteString(encrypted, "*2\r\n$3\r\nGET\r\n$2\r\nid\r\n")
	id, err := s.read(over)
	if err != nil {
		t.Fatal(err)
	}
	ids.last = max(ids.last, id)
	u.succeed(t)
	if _, err := over.ReadByte(); err != io.EOF { // that of close_notify: else it is io.ErrUnexpectedEOF, or a reset
		t.Errorf("the encrypted connection ended with %v", err)
	}
	ids.id(t)
	newAsker(t, "unix", sock).id(t)
}
