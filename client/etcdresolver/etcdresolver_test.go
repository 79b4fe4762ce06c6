package etcdresolver

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/followtest"
)

type directory struct {
	t *testing.T
	*etcdtest.Member
}

func (d directory) Put(name, text string) { d.Member.Put("some/pool/peers/"+name, text) }

func (d directory) Delete(name string) { d.Control("del", "some/pool/peers/"+name) }

func TestFollowsAnnouncements(t *testing.T) {
	m := etcdtest.Start(t)
	followtest.Run(t, New(m.Client(), "/some/pool/"), directory{t, m})
}
