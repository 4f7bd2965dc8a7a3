package godriver

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"syscall"

	"google.golang.org/grpc"
)

// What a handler does at a point that is armed.
const (
	actDie  = "die"
	actHold = "hold"
)

// arm has the next handler that comes to a point die there, or hold.
func (d *driver) arm(_ context.Context, a args) (any, error) {
	d.holds.mu.Lock()
	defer d.holds.mu.Unlock()
	d.holds.armed[a.Name] = a.How
	delete(d.holds.points, a.Name)
	return nil, nil
}

// take gives what the next one at a point is to do; "": go on.
func (h *holds) take(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	how := h.armed[name]
	delete(h.armed, name)
	return how
}

// silence has the process die before it sends anything more.
func (h *holds) silence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = true
}

func (h *holds) silenced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent
}

// die ends the process as a crash does.
func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// pass comes to a point at which the runner may have the process die, or hold.
func (p *player) pass(ctx context.Context, name string) error {
	switch p.holds.take(name) {
	case actDie:
		die()
	case actHold:
		return p.hold(ctx, name)
	}
	return nil
}

// seen is whether the call that is asked about stands in the ledger.
func (p *player) seen(tool, payload string) (json.RawMessage, error) {
	var asked struct {
		Once string `json:"idempotency_key"`
	}
	if err := json.Unmarshal([]byte(payload), &asked); err != nil {
		return nil, err
	}
	file, err := os.Open(p.ledger)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	happened := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var entry struct{ Tool, Key string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Tool == tool && entry.Key == asked.Once {
			happened = true
		}
	}
	return json.Marshal(map[string]any{"happened": happened, "result": 1})
}

// mortal is a stream of a process that may die before it sends.
type mortal struct {
	grpc.ClientStream
	holds func() *holds
}

func (m mortal) SendMsg(message any) error {
	if m.holds().silenced() {
		die()
	}
	return m.ClientStream.SendMsg(message)
}

// mortally makes the streams of a driver mortal.
func (d *driver) mortally(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := next(ctx, desc, conn, method, opts...)
	return mortal{stream, func() *holds {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.holds
	}}, err
}
