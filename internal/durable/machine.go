package durable

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
)

// MachineID is an identity of this machine for the files: the same after every boot, another on
// every other machine, and of no use to find the machine's own id, which programs are asked not to
// give away. It is empty where there is none, as in many containers.
func MachineID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if b, err := os.ReadFile(path); err == nil {
			if id, err := hex.DecodeString(strings.TrimSpace(string(b))); err == nil && len(id) == 16 {
				h := hmac.New(sha256.New, id)
				h.Write([]byte("katsubushi worker id state"))
				return hex.EncodeToString(h.Sum(nil)[:16])
			}
		}
	}
	return ""
}
