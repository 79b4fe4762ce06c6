package redistest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

const ownNetwork = "KATSUBUSHI_OWN_NETWORK"

// InOwnNetwork reports whether the test runs in a network namespace of its own, where packets can
// be dropped without harm to anybody. If not, it runs the test once more in one, in parallel with
// others, and fails as that does:
//
//	if !redistest.InOwnNetwork(t) {
//		return
//	}
//
// That takes root. The test is skipped for everyone else, and where the kernel does not allow it.
func InOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetwork) == t.Name() {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	for _, program := range []string{"unshare", "ip", "nft"} {
		childprocess.Need(t, program)
	}
	if out, err := exec.Command("unshare", "-n", "nft", "add", "table", "inet", "test").CombinedOutput(); err != nil {
		t.Skipf("no network namespace, or no packet filter: %v: %s", err, out)
	}
	t.Parallel()
	cmd := exec.Command("unshare", "-n", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownNetwork+"="+t.Name())
	var out childprocess.Log
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := childprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	<-p.Ended()
	if t.Log("in a network of its own:\n" + out.String()); !cmd.ProcessState.Success() {
		t.Fail()
	}
	return false
}

// DropPackets throws away all packets from and to an address of the test's own network, for good.
func DropPackets(t testing.TB, ip string) {
	t.Helper()
	if os.Getenv(ownNetwork) != t.Name() {
		t.Fatal("this network is not the test's own")
	}
	nft := exec.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader("table inet test { chain in { type filter hook input priority 0; ip saddr " + ip +
		" drop; ip daddr " + ip + " drop; }; }")
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v: %s", err, out)
	}
}
