package bench

import "syscall"

// dieWithParent lets the kernel kill a child whose parent is gone, however the
// parent ended.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
