package cluster

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/e2e/play"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/testkit"
	"github.com/pawl-dev/pawl/internal/testkit/pg"
)

// number is what a variable says, if it says one.
func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// cluster is some nodes on one database.
type cluster struct {
	t *testing.T
	// ctx ends with the test, and when a node ended by itself.
	ctx    context.Context
	db     *database
	nodes  []*node
	random *rand.Rand
	waits  *standstills
	// hands are the workers that are processes.
	hands []*hand
}

// newCluster starts nodes on a database of their own.
func newCluster(t *testing.T, nodes int, args ...string) *cluster {
	t.Helper()
	pg.Require(t)
	seed := uint64(number("PAWL_SEED", 1))
	t.Logf("seed %d", seed)
	c := &cluster{t: t, db: newDatabase(t), random: rand.New(rand.NewPCG(seed, 13))}
	c.waits = &standstills{pulse: pg.Listen(t, c.db.way(&c.db.pulse))}
	var broken context.CancelFunc
	c.ctx, broken = context.WithCancel(t.Context())
	t.Cleanup(broken)
	for i := range nodes {
		n := newNode(t, string(rune('a'+i)), args...)
		n.args, n.broken = append(n.args, "--store", c.db.way(&n.database)), broken
		if nodes > 1 {
			n.joins()
		}
		c.nodes = append(c.nodes, n)
		n.start()
	}
	return c
}

// owner is the node that has the store, if one has.
func (c *cluster) owner() *node {
	c.t.Helper()
	if len(c.nodes) == 1 {
		return c.nodes[0]
	}
	address := c.db.server().Query(c.t, "postgres", "SELECT address FROM pawl.part WHERE id = 0 AND lease_until > now()")
	for _, n := range c.nodes {
		if n.peers.Addr() == address {
			return n
		}
	}
	return nil
}

// victim is the owner half of the time, else any.
func (c *cluster) victim() *node {
	c.t.Helper()
	if one := c.owner(); one != nil && c.random.IntN(2) == 0 {
		return one
	}
	return c.nodes[c.random.IntN(len(c.nodes))]
}

// spread is a connection of which each call goes to a node by chance.
type spread []*grpc.ClientConn

func (c *cluster) spread() spread {
	c.t.Helper()
	var all spread
	for _, n := range c.nodes {
		all = append(all, n.dial())
	}
	return all
}

func (s spread) any() *grpc.ClientConn { return s[rand.IntN(len(s))] }

func (s spread) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return s.any().Invoke(ctx, method, args, reply, opts...)
}

func (s spread) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.any().NewStream(ctx, desc, method, opts...)
}

// packs are the arguments for what the load needs.
func packs(t *testing.T) []string {
	t.Helper()
	args := []string{"--allow-tool", "*", "--push-allow", "127.0.0.1"}
	files := []string{"../testdata/crash.pack.yaml", "../testdata/desk.pack.yaml", "testdata/ping.pack.json"}
	for _, file := range append(files, chargePacks(t)...) {
		args = append(args, "--pack", file)
	}
	return args
}

// TestClusterUnderFaults: PAWL_FAULTS faults by PAWL_SEED, while runs are driven, worked on and
// read through all nodes. Nothing that was acknowledged is lost, no effect is had twice, what was
// answered has an order, a reader of everything sees each record once and in order, every run
// ends, and no node is without an owner for long.
func TestClusterUnderFaults(t *testing.T) {
	faults, runs := number("PAWL_FAULTS", len(deck)), number("PAWL_RUNS", 40)
	c := newCluster(t, number("PAWL_NODES", 3), packs(t)...)
	ctx, cancel := context.WithTimeout(c.ctx, 2*time.Minute+time.Duration(faults)*patience)
	defer cancel()
	l := newLoad(ctx, c, runs)
	var beside sync.WaitGroup
	l.begin(&beside)
	calls := play.NewLinear(ctx)
	// A node makes ResolveStep again at the next owner; a take-over lasts longer than a pause.
	calls.Again, calls.Slow = true, true
	var racing []*play.LinearClient
	for range 6 {
		racing = append(racing, calls.Client(c.spread()))
	}
	for _, one := range racing {
		beside.Go(one.Race)
	}
	driven := play.UnderCrashes(ctx, t, faults, runs/4, func() pawlv1.RunServiceClient { return pawlv1.NewRunServiceClient(c.spread()) },
		c.faults(func(ctx context.Context, acked *atomic.Int64) {
			play.AwaitCount(ctx, acked, acked.Load()+20+c.random.Int64N(60))
		}))
	calls.Over.Store(true)
	l.end()
	beside.Wait()
	l.judge(driven)
	calls.Judge(t, "../testdata/desk.pack.yaml")
	c.waits.judge(t, c.nodes)
	c.compared(driven)
	c.stopped()
	testkit.Tried(t, faults, "faults of nodes, connections and the database")
}

// compared: what was driven left the records that it leaves on a sidecar which nothing happens to.
func (c *cluster) compared(driven []*play.Driver) {
	c.t.Helper()
	calm := newNode(c.t, "calm", "--allow-tool", "*", "--pack", "../testdata/crash.pack.yaml", "--data", c.t.TempDir())
	calm.start()
	play.CompareAll(c.t, driven, pawlv1.NewRunServiceClient(c.spread()), pawlv1.NewRunServiceClient(calm.dial()))
	calm.end(syscall.SIGTERM)
}

// stopped ends the nodes and proves their store.
func (c *cluster) stopped() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.end(syscall.SIGTERM)
		if code := n.cmd.ProcessState.ExitCode(); code != 0 {
			c.t.Errorf("node %s: exit code %d after SIGTERM", n.name, code)
		}
		n.silent()
	}
	out, err := exec.Command(binary(c.t), "check", "--store", c.db.server().URL("postgres")).CombinedOutput()
	c.t.Logf("sidecar check: %s", strings.TrimSpace(string(out)))
	if err != nil {
		c.t.Errorf("sidecar check: %v", err)
	}
}
