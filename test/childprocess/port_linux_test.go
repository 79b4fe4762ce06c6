package childprocess

import "testing"

// A server that is killed and started again, or is slow to start, keeps its port: nobody else gets it.
func TestAPortHasOneOwner(t *testing.T) {
	var port int
	t.Run("owner", func(t *testing.T) {
		port = FreePort(t)
		if release, ok := reserve(port); ok {
			release()
			t.Errorf("port %d is given away while its test runs", port)
		}
	})
	release, ok := reserve(port)
	if !ok {
		t.Fatalf("port %d stays taken after its test", port)
	}
	release()
}
