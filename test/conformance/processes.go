package main

import (
	"errors"
	"os"
	"os/exec"
	"sync"
)

// processes are all started processes. They are ended when the runner must end.
type processes struct {
	mu    sync.Mutex
	live  map[*os.Process]struct{}
	ended bool
}

func newProcesses() *processes { return &processes{live: map[*os.Process]struct{}{}} }

// start starts a command; wait must follow.
func (p *processes) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errors.New("the runner ends")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.live[cmd.Process] = struct{}{}
	return nil
}

// wait waits until a command has ended.
func (p *processes) wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, cmd.Process)
}

// kill ends all that there are; no more are started.
func (p *processes) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for process := range p.live {
		_ = process.Kill()
	}
}
