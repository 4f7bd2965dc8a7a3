package main

import (
	"os/exec"
	"testing"
	"time"
)

func TestProcessesKill(t *testing.T) {
	t.Parallel()
	p, ended := newProcesses(), make(chan struct{})
	cmd := exec.Command("sleep", "60")
	if err := p.start(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.wait(cmd)
		close(ended)
	}()
	p.kill()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the process lives on")
	}
	if err := p.start(exec.Command("sleep", "60")); err == nil {
		t.Error("a process was started after the end")
	}
}
