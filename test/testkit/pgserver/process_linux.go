package pgserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/test/testkit/child"
)

// These are the signals for servers: wait, continue, end soon, end now, read the settings again.
const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
	fast   = syscall.SIGINT
	quit   = syscall.SIGQUIT
	reload = syscall.SIGHUP
)

// credential returns the user of PostgreSQL, which refuses to run as root. nil means the user of the tests.
var credential = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(found.Uid, 10, 32) // a number on Linux
		gid, _ := strconv.ParseUint(found.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: false}, nil
	}
	return nil, fmt.Errorf("PostgreSQL refuses to run as root, and this machine has neither a user postgres nor nobody")
})

// chownToServer makes a file that of the server's user.
func chownToServer(path string) error {
	who, err := credential()
	if err != nil || who == nil {
		return err
	}
	return os.Lchown(path, int(who.Uid), int(who.Gid))
}

// prepare lets a command run as the server's user, in English.
func prepare(cmd *exec.Cmd) error {
	who, err := credential()
	if err != nil {
		return err
	}
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	return nil
}

// launch starts a process that is sent SIGQUIT when this one ends, however it does.
func launch(cmd *exec.Cmd) error {
	if err := prepare(cmd); err != nil {
		return err
	}
	return child.Start(cmd, syscall.SIGQUIT)
}

// children are the processes that a process started and that still run.
func children(parent int) []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // of digits
		if _, of := status(pid); of == parent {
			found = append(found, pid)
		}
	}
	return found
}

// status returns the state letter and the parent of a process. Both are empty if the process has ended.
func status(pid int) (state string, parent int) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	// The name is in parentheses and may hold some itself.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	parent, _ = strconv.Atoi(fields[1]) // a number
	return fields[0], parent
}

// killAll ends a server and all its processes at once, as a power cut of its machine would,
// and waits until none is left: the next start refuses while one is.
func killAll(postmaster int) {
	// Stopped first, so that it starts none while they are counted.
	_ = syscall.Kill(postmaster, syscall.SIGSTOP)
	all := append(children(postmaster), postmaster)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range all {
		waitFor(func() bool { state, _ := status(pid); return state == "" || state == "Z" || state == "X" })
	}
}

// signalAll sends a signal to a server and all its processes.
func signalAll(postmaster int, sig syscall.Signal) {
	_ = syscall.Kill(postmaster, sig)
	for _, pid := range children(postmaster) {
		_ = syscall.Kill(pid, sig)
	}
}

// waitFor looks until a condition holds, at most a minute.
func waitFor(holds func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// lock takes the lock of a file until the process ends or the file is closed. wait says whether to
// wait for the lock. It returns nil if another process has it.
func lock(path string, wait bool) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		_ = file.Close()
		return nil, nil
	}
	return file, nil
}
