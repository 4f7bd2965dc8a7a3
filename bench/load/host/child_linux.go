package host

import "syscall"

// DieWithParent lets the kernel kill a child whose parent is gone, however the
// parent ended.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
