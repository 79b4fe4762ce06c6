package redis

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs more tests beside each other than there are processors: they wait for servers most
// of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set(f.Name, "4")
	}
	os.Exit(m.Run())
}
