package redis

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/storefaults"
)

func TestFaultsAreInTheDocumentation(t *testing.T) {
	t.Parallel()
	storefaults.Documented(t, "availability_test.go", "clock_test.go", "cluster_test.go", "failover_test.go",
		"fault_test.go", "loss_test.go", "../../cmd/katsubushi/leaseclock_linux_test.go",
		"../../cmd/katsubushi/leasefaults_linux_test.go")
}
