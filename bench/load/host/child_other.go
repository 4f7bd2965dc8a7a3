//go:build !linux

package host

import "syscall"

// DieWithParent has no meaning here; children end when their input ends.
func DieWithParent() *syscall.SysProcAttr { return nil }
