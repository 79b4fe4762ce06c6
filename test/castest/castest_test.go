package castest_test

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/castest"
	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

func memory(testing.TB) castest.Place {
	server := memcas.NewServer(func() int64 { return 0 }, 1000)
	return func(testing.TB) cas.Driver { return &memcas.Driver{Server: server} }
}

func TestMemory(t *testing.T) { castest.Run(t, memory) }

func TestStoreInMemory(t *testing.T) { castest.Store(t, memory, 30) }
