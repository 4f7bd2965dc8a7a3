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

// armPoint has the next handler that comes to a point die there, or hold.
func (d *driver) armPoint(_ context.Context, a args) (any, error) {
	d.holdPoints.mu.Lock()
	defer d.holdPoints.mu.Unlock()
	d.holdPoints.actions[a.Name] = a.How
	delete(d.holdPoints.points, a.Name)
	return nil, nil
}

// take gives what the next one at a point is to do; "": go on.
func (h *holdPoints) take(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	how := h.actions[name]
	delete(h.actions, name)
	return how
}

// dieBeforeSend has the process die before it sends anything more.
func (h *holdPoints) dieBeforeSend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = true
}

func (h *holdPoints) isSilenced() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent
}

// crash ends the process as a crash does.
func crash() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// pass comes to a point at which the runner may have the process die, or hold.
func (p *player) pass(ctx context.Context, name string) error {
	switch p.points.take(name) {
	case actDie:
		crash()
	case actHold:
		return p.hold(ctx, name)
	}
	return nil
}

// isInLedger is whether the call that is asked about stands in the ledger.
func (p *player) isInLedger(tool, payload string) (json.RawMessage, error) {
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

// mortalStream is a stream of a process that may die before it sends.
type mortalStream struct {
	grpc.ClientStream
	points func() *holdPoints
}

func (m mortalStream) SendMsg(message any) error {
	if m.points().isSilenced() {
		crash()
	}
	return m.ClientStream.SendMsg(message)
}

// mortalStream makes the streams of a driver mortal.
func (d *driver) mortalStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := next(ctx, desc, conn, method, opts...)
	return mortalStream{stream, func() *holdPoints {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.holdPoints
	}}, err
}
