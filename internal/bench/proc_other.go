//go:build !linux

package bench

import "syscall"

// dieWithParent has no meaning here; children end when their input ends.
func dieWithParent() *syscall.SysProcAttr { return nil }
