package zkresolver

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/katsubushi/katsubushi/v3/test/followtest"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
)

type directory struct {
	t *testing.T
	*zk.Conn
}

const peers = "/some/pool/peers"

func (d directory) Put(name, text string) {
	if _, err := d.Create(peers+"/"+name, []byte(text), 0, zk.WorldACL(zk.PermAll)); err == zk.ErrNodeExists {
		if _, err := d.Set(peers+"/"+name, []byte(text), -1); err != nil {
			d.t.Fatal(err)
		}
	} else if err != nil {
		d.t.Fatal(err)
	}
}

func (d directory) Delete(name string) {
	if err := d.Conn.Delete(peers+"/"+name, -1); err != nil {
		d.t.Fatal(err)
	}
}

func TestFollowsAnnouncements(t *testing.T) {
	s := zktest.Start(t)
	d := directory{t, s.Client()}
	for _, path := range []string{"/some", "/some/pool", peers} {
		if _, err := d.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	followtest.Run(t, New(s.Client(), "some/pool"), d)
}
