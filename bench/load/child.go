package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/bench/load/host"
)

// ChildSpec is what one child process of the bench is asked to be.
type ChildSpec struct {
	// Role is one of those that [ChildRoles] lists.
	Role string
	Args []string
	// CPUProfile is a file to write; "" = none.
	CPUProfile string
	// In carries requests as JSON lines, its end tells the child to end; Out
	// carries one JSON line per answer.
	In  io.Reader
	Out io.Writer
	// Serve runs `pawl serve` with the given flags until ctx ends; it prints
	// its ready line to Out.
	Serve func(ctx context.Context, args []string, out io.Writer) error
}

// roles are the kinds of children. Each runs until its work is done or ctx
// ends.
var roles = map[string]func(context.Context, ChildSpec, *wire) error{
	"serve":    serveChild,
	"echo":     echoChild,
	"load":     loadChild,
	"flood":    floodChild,
	"lists":    listsChild,
	"watch":    watchChild,
	"commit":   commitChild,
	"bare":     bareChild,
	"flat":     flatChild,
	"seed":     seedChild,
	"snapshot": snapshotChild,
	"speak":    turnsChild,
	"storage":  storageChild,
	"worker":   workerChild,
	"hold":     holdChild,

	"agent": agentChild,
	"mcp":   mcpChild,

	"idle-workers": idleWorkersChild,
	"subscribers":  subscribersChild,
}

// ChildRoles names the roles in order.
func ChildRoles() []string {
	names := make([]string, 0, len(roles))
	for name := range roles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Child is the main function of a child process.
func Child(ctx context.Context, spec ChildSpec) error {
	run, ok := roles[spec.Role]
	if !ok {
		return fmt.Errorf("role %q; want one of %v", spec.Role, ChildRoles())
	}
	stopProfile, err := host.Profile(spec.CPUProfile)
	if err != nil {
		return err
	}
	defer stopProfile()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWire(spec.In, spec.Out, cancel)
	if err := run(ctx, spec, w); err != nil && !errors.Is(err, context.Canceled) {
		w.fail(err)
		return err
	}
	return nil
}

// serveChild is the sidecar itself: nothing but its own serve command.
func serveChild(ctx context.Context, spec ChildSpec, _ *wire) error {
	return spec.Serve(ctx, spec.Args, spec.Out)
}

// wire is a child's side of the conversation with its parent.
type wire struct {
	requests chan []byte
	mu       sync.Mutex
	out      *json.Encoder
}

// newWire reads requests from in and calls ended when there are no more.
func newWire(in io.Reader, out io.Writer, ended func()) *wire {
	w := &wire{requests: make(chan []byte, 1), out: json.NewEncoder(out)}
	go func() {
		defer ended()
		defer close(w.requests)
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			w.requests <- line
		}
	}()
	return w
}

// serveRequests hands one request after the other to handle and sends its answers, until
// the parent has no more.
func (w *wire) serveRequests(ctx context.Context, handle func(json.RawMessage) (any, error)) error {
	for {
		select {
		case line, ok := <-w.requests:
			if !ok {
				return nil
			}
			answer, err := handle(line)
			if err != nil {
				return err
			}
			w.send(answer)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends one line; the parent may be gone, which its end of input will tell.
func (w *wire) send(v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(v)
}

func (w *wire) fail(err error) { w.send(map[string]string{"error": err.Error()}) }

// ready is what every server child says first; `pawl serve` says it too.
type ready struct {
	Ready bool   `json:"ready"`
	GRPC  string `json:"grpc"`
	HTTP  string `json:"http"`
}
