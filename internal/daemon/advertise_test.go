package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
)

// TestClusterListsTheDaemonItself asks for the list as an ElastiCache client does, and connects to
// the answer.
func TestClusterListsTheDaemonItself(t *testing.T) {
	for name, bind := range map[string]string{"one address": "127.0.0.1", "all addresses": ""} {
		t.Run(name, func(t *testing.T) {
			_, address := run(t, func(c *Config) { c.Bind, c.Loops = bind, 2 })
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				t.Fatal(err)
			}
			node := strings.Split(askCluster(t, dial(t, net.JoinHostPort("127.0.0.1", port))), "|")
			if len(node) != 3 || node[0] != node[1] || node[2] != port {
				t.Fatalf("%q, and the port is %s", node, port)
			}
			if ip, err := netip.ParseAddr(node[1]); err != nil || ip.IsUnspecified() {
				t.Errorf("no address to connect to: %q", node)
			}
			get(t, dial(t, net.JoinHostPort(node[1], node[2])))
		})
	}
}

func TestClusterListsWhatIsAdvertised(t *testing.T) {
	for advertised, want := range map[string]string{
		"198.51.100.7:4711":   "198.51.100.7|198.51.100.7|4711",
		"[2001:db8::7]:4711":  "2001:db8::7|2001:db8::7|4711",
		"localhost:4711":      "localhost|127.0.0.1|4711",
		"nowhere.invalid:711": "nowhere.invalid||711",
	} {
		d, address := run(t, func(c *Config) { c.Advertise = advertised })
		if got := askCluster(t, dial(t, address)); got != want {
			t.Errorf("%s: %s, want %s", advertised, got, want)
		}
		if got := d.texts("settings")["advertise"]; got != advertised {
			t.Errorf("stats settings: %s, want %s", got, advertised)
		}
	}
}

func TestAUnixSocketIsInNoCluster(t *testing.T) {
	_, address := run(t, func(c *Config) { c.Sock, c.SockMode = filepath.Join(t.TempDir(), "ids.sock"), 0o700 })
	c, err := net.Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "config get cluster\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "ERROR\r\n" {
		t.Error(line, err)
	}
}

// askCluster returns the only node in the list.
func askCluster(t *testing.T, c net.Conn) string {
	t.Helper()
	io.WriteString(c, "config get cluster\r\n")
	var size, version int
	var node string
	if _, err := fmt.Fscanf(bufio.NewReader(c), "CONFIG cluster 0 %d\r\n%d\n%s\n\r\nEND\r\n", &size, &version,
		&node); err != nil {
		t.Fatal(err)
	}
	if want := len(fmt.Sprintf("%d\n%s\n", version, node)); size != want {
		t.Errorf("%d bytes announced, %d sent", size, want)
	}
	return node
}
