package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// waitTimeout bounds every wait for one thing; none of them takes near as long.
const waitTimeout = 60 * time.Second

// driver is a process of one language that makes calls through its client, or a connection to
// one. It reads one request a line and writes one answer a line, in any order, and events of its
// worker in between.
type driver struct {
	// cmd is nil where the driver is a connection.
	cmd    *exec.Cmd
	input  io.WriteCloser
	stderr tail

	mu      sync.Mutex
	last    int
	answers map[int]chan reply
	// events are what its worker reported; changed is closed and replaced with each.
	events  []map[string]any
	changed chan struct{}
	ended   bool
}

// reply is one line of a driver.
type reply struct {
	ID     int            `json:"id"`
	Result any            `json:"result"`
	Error  any            `json:"error"`
	Event  map[string]any `json:"event"`
}

func startDriver(lang language, all *processes) (*driver, error) {
	d := &driver{answers: map[int]chan reply{}, changed: make(chan struct{})}
	if lang.network != "" {
		conn, err := net.DialTimeout(lang.network, lang.address, waitTimeout)
		if err != nil {
			return nil, fmt.Errorf("driver %s: %w", lang.name, err)
		}
		d.input = conn
		go d.read(conn, all)
		return d, nil
	}
	d.cmd = exec.Command(lang.command[0], lang.command[1:]...)
	var err error
	if d.input, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.cmd.Stderr = &d.stderr
	if err := all.start(d.cmd); err != nil {
		return nil, err
	}
	go d.read(output, all)
	return d, nil
}

// read takes lines until the process is gone.
func (d *driver) read(output io.Reader, all *processes) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			r = reply{Event: map[string]any{"kind": "garbage", "line": string(line)}}
		}
		d.take(r)
	}
	if d.cmd != nil {
		all.wait(d.cmd)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for _, answer := range d.answers {
		close(answer)
	}
	d.wake()
}

func (d *driver) take(r reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Event != nil {
		d.events = append(d.events, r.Event)
		d.wake()
		return
	}
	if answer := d.answers[r.ID]; answer != nil {
		delete(d.answers, r.ID)
		answer <- r
	}
}

// wake wakes the goroutines that wait for a change. The caller holds the mutex.
func (d *driver) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// send makes a request; its answer comes over the channel, which is closed if the
// process is gone.
func (d *driver) send(op string, args map[string]any) (<-chan reply, error) {
	answer := make(chan reply, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return nil, fmt.Errorf("the driver is gone:\n%s", d.stderr.String())
	}
	d.last++
	line, err := json.Marshal(map[string]any{"id": d.last, "op": op, "args": args})
	if err != nil {
		return nil, err
	}
	d.answers[d.last] = answer
	_, err = d.input.Write(append(line, '\n'))
	return answer, err
}

// call makes a request and waits for its answer.
func (d *driver) call(op string, args map[string]any) (reply, error) {
	answer, err := d.send(op, args)
	if err != nil {
		return reply{}, err
	}
	return d.receive(op, answer)
}

func (d *driver) receive(what string, answer <-chan reply) (reply, error) {
	select {
	case r, ok := <-answer:
		if !ok {
			return reply{}, fmt.Errorf("%s: the driver is gone:\n%s", what, d.stderr.String())
		}
		return r, nil
	case <-time.After(waitTimeout):
		return reply{}, fmt.Errorf("%s: no answer within %v\n%s", what, waitTimeout, d.stderr.String())
	}
}

// await waits for an event that contains what is wanted, from index from on, and
// gives the index behind it; those of skip are none.
func (d *driver) await(want map[string]any, from int, skip map[int]bool) (int, map[string]any, error) {
	deadline := time.After(waitTimeout)
	for {
		d.mu.Lock()
		events, news, over := d.events, d.changed, d.ended
		d.mu.Unlock()
		for i := from; i < len(events); i++ {
			if !skip[i] && match("", want, events[i]) == nil {
				return i + 1, events[i], nil
			}
		}
		if over {
			return 0, nil, fmt.Errorf("the worker is gone, its events: %s\n%s", short(events[from:]), d.stderr.String())
		}
		select {
		case <-news:
		case <-deadline:
			return 0, nil, fmt.Errorf("no event %s within %v, only %s\n%s", short(want), waitTimeout, short(events[from:]), d.stderr.String())
		}
	}
}

// forget drops the events of a scenario that is over.
func (d *driver) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = nil
}

// hasHeldHandler tells whether a handler holds that was not released.
func (d *driver) hasHeldHandler(released map[string]bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, event := range d.events {
		if name, _ := event["name"].(string); event["kind"] == "holding" && !released[name] {
			return true
		}
	}
	return false
}

// allEvents returns all events when no more can come, because the process has answered or ended.
func (d *driver) allEvents() ([]map[string]any, error) {
	if answer, err := d.send("ping", nil); err == nil {
		select {
		case <-answer:
		case <-time.After(waitTimeout):
			return nil, fmt.Errorf("ping: no answer within %v", waitTimeout)
		}
	} else if err := d.awaitExit(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.events, nil
}

// kill sends SIGKILL and waits until the process is gone. A connection is closed.
func (d *driver) kill() error {
	if d.cmd == nil {
		_ = d.input.Close()
	} else {
		_ = d.cmd.Process.Kill()
	}
	return d.awaitExit()
}

func (d *driver) awaitExit() error {
	deadline := time.After(waitTimeout)
	for {
		d.mu.Lock()
		over, news := d.ended, d.changed
		d.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-news:
		case <-deadline:
			return fmt.Errorf("the driver did not end within %v", waitTimeout)
		}
	}
}

// tail keeps the end of what a process wrote.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
