package zkresolver

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/katsubushi/katsubushi/v3/test/followtest"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
)

type directory struct {
	*zktest.Server
	conn *zk.Conn
}

const peers = "/some/pool/peers"

// Put and Delete insist: the library's connection may break on a busy machine, before a call is carried out or after.
func (d directory) Put(name, text string) {
	d.Until("it is written", func() bool {
		_, err := d.conn.Create(peers+"/"+name, []byte(text), 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = d.conn.Set(peers+"/"+name, []byte(text), -1)
		}
		return err == nil
	})
}

func (d directory) Delete(name string) {
	d.Until("it is deleted", func() bool {
		err := d.conn.Delete(peers+"/"+name, -1)
		return err == nil || errors.Is(err, zk.ErrNoNode)
	})
}

func TestFollowsAnnouncements(t *testing.T) {
	s := zktest.Start(t)
	s.Make(peers)
	followtest.Run(t, New(s.Client(), "some/pool"), directory{s, s.Client()})
}
