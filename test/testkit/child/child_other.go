//go:build !linux

package child

import (
	"os/exec"
	"syscall"
)

// Start starts a command. Other systems do not tell a child of its parent's death.
func Start(cmd *exec.Cmd, _ syscall.Signal) error { return cmd.Start() }
