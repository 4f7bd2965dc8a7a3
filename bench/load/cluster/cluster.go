package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Size is how many sidecars share a database.
const Size = 3

// Process is a sidecar that serves.
type Process struct {
	// Target is where callers reach it.
	Target string
	// End sends it a signal and returns when it is gone.
	End func(signal syscall.Signal)
}

// Start starts one of the sidecars.
type Start func(ctx context.Context) (Process, error)

//go:embed ping.json
var pingPack []byte

const (
	pingID = "bench-ping"
	event  = "Next"
)

// Cluster are sidecars on one database. For one goroutine.
type Cluster struct {
	start Start
	nodes []*node
	// callers are numbered, so that none has the ids of another.
	callers int
}

// node is one of them; another process has its place when it was ended.
type node struct {
	process Process
	conn    *grpc.ClientConn
}

// New starts them one after the other, and waits until they share evenly. Its owner closes them.
func New(ctx context.Context, start Start) (*Cluster, error) {
	c := &Cluster{start: start}
	if err := c.open(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) open(ctx context.Context) error {
	for range Size {
		n := &node{}
		if err := c.begin(ctx, n); err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	if err := c.register(ctx, namespaces[0], pingPack); err != nil {
		return err
	}
	_, err := c.awaitEvenShares(ctx)
	return err
}

func (c *Cluster) register(ctx context.Context, namespace string, pack []byte) error {
	_, err := pawlv1.NewPackServiceClient(c.nodes[0].conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Namespace: namespace, Content: pack})
	return err
}

// begin puts a process into the place of a node.
func (c *Cluster) begin(ctx context.Context, n *node) (err error) {
	if n.process, err = c.start(ctx); err != nil {
		return err
	}
	n.conn, err = grpc.NewClient("passthrough:///"+n.process.Target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.process.End(syscall.SIGKILL)
	}
	return err
}

// end ends the process of a node.
func (n *node) end(signal syscall.Signal) {
	n.process.End(signal)
	n.conn.Close()
}

// Close kills all.
func (c *Cluster) Close() {
	for _, n := range c.nodes {
		n.end(syscall.SIGKILL)
	}
}

// ownerTrailer is in the answer of a node that has not given it itself.
const ownerTrailer = "pawl-owner"

var errNoOwner = errors.New("every node has its answers from another one")

// splitByOwner are the owner of default, and the others.
func (c *Cluster) splitByOwner(ctx context.Context) (owner *node, others []*node, err error) {
	for _, n := range c.nodes {
		var trailer metadata.MD
		_, err := pawlv1.NewRunServiceClient(n.conn).ListRuns(ctx, &pawlv1.ListRunsRequest{PageSize: 1}, grpc.Trailer(&trailer))
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("who has the store: %w", err)
		case len(trailer.Get(ownerTrailer)) > 0 || owner != nil:
			others = append(others, n)
		default:
			owner = n
		}
	}
	if owner == nil {
		return nil, nil, errNoOwner
	}
	return owner, others, nil
}

// caller leads one run to and fro through one node, and repeats nothing.
type caller struct {
	runs  pawlv1.RunServiceClient
	name  string
	run   string
	calls int
}

func (c *Cluster) caller(ctx context.Context, at *node) (*caller, error) {
	c.callers++
	one := &caller{runs: pawlv1.NewRunServiceClient(at.conn), name: fmt.Sprintf("caller-%04d", c.callers)}
	answer, err := one.runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: pingID, Execution: pawlv1.Execution_EXECUTION_CALLER})
	one.run = answer.GetRun().GetRunId()
	return one, err
}

// emit leads the run on: an event that was lost, or counted twice, shows in the state.
func (c *caller) emit(ctx context.Context) error {
	c.calls++
	answer, err := c.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: c.run, Event: event, EventId: fmt.Sprintf("%s-%08d", c.name, c.calls)})
	if want := []string{"ping", "pong"}[c.calls%2]; err == nil && answer.GetState() != want {
		err = fmt.Errorf("event %d of run %s led to %q, want %q", c.calls, c.run, answer.GetState(), want)
	}
	return err
}

func (c *caller) get(ctx context.Context) error {
	_, err := c.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: c.run})
	return err
}
