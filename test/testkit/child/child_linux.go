package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launches are made by one thread that lives as long as the process: the kernel sends the
// signal of a parent's death when the thread ends that started the child.
var launches = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for launch := range work {
			launch()
		}
	}()
	return work
})

// Start starts a command, as its own method does, that is sent the signal when this process ends.
func Start(cmd *exec.Cmd, last syscall.Signal) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = last
	started := make(chan error)
	launches() <- func() { started <- cmd.Start() }
	return <-started
}
