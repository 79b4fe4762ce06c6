package redistest

import (
	"os/exec"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// A Child is a childprocess.Child.
type Child = childprocess.Child

// StartChild is childprocess.Start.
func StartChild(cmd *exec.Cmd) (*Child, error) { return childprocess.Start(cmd) }
