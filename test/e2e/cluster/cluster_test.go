package cluster

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
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
	broken context.CancelFunc
	db     *database
	// args are the arguments of each node. isSingle means that there is only one node, which shares its
	// store with no other node.
	args     []string
	isSingle bool
	// program is what nodes begin with; "": the program under test.
	program string
	// exchanges counts the nodes that got another program.
	exchanges int
	nodes     []*node
	random    *rand.Rand
	waits     *standstills
	// spaces are the namespaces, parts the partition that each is in.
	spaces []string
	parts  map[string]int32
	// workers are the workers that are processes, probes those of each namespace at each node.
	workers []*workerProcess
	probes  []*probe
	// remainingFaults are the faults of the round that are still to come.
	remainingFaults []fault
}

// newCluster starts nodes on a database of their own, which serve so many namespaces.
func newCluster(t *testing.T, nodes, spaces int) *cluster {
	t.Helper()
	return newClusterOf(t, "", nodes, spaces)
}

// newClusterOf starts nodes of another program than the one under test, unless it is "".
func newClusterOf(t *testing.T, program string, nodes, spaces int) *cluster {
	t.Helper()
	pgserver.Require(t)
	seed := uint64(number("PAWL_SEED", 1))
	t.Logf("seed %d", seed)
	c := &cluster{
		t: t, db: newDatabase(t), isSingle: nodes == 1, random: rand.New(rand.NewPCG(seed, 13)),
		spaces: spacesOf(spaces), parts: map[string]int32{}, program: program,
	}
	c.waits = &standstills{commits: pgserver.Listen(t, c.db.urlThrough(&c.db.pulseRelays))}
	c.ctx, c.broken = context.WithCancel(t.Context())
	t.Cleanup(c.broken)
	files := packs(t)
	c.args = []string{"--allow-tool", "*", "--push-allow", "127.0.0.1"}
	for _, file := range files {
		c.args = append(c.args, "--pack", file)
	}
	for _, space := range c.spaces[1:] {
		c.args = append(c.args, "--namespace", space)
	}
	for range nodes {
		c.join()
	}
	c.furnish(files)
	return c
}

// join starts one more node.
func (c *cluster) join() *node {
	c.t.Helper()
	n := newNode(c.t, string(rune('a'+len(c.nodes))), c.args...)
	n.args, n.broken, n.program = append(slices.Clone(n.args), "--store", c.db.urlThrough(&n.database)), c.broken, c.program
	if !c.isSingle {
		n.joinCluster()
	}
	c.nodes = append(c.nodes, n)
	n.start()
	return n
}

// nodesExcept are the nodes besides one.
func (c *cluster) nodesExcept(one *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == one })
}

// victim is the owner of a partition by chance half of the time, else any.
func (c *cluster) victim() *node {
	c.t.Helper()
	parts := c.all()
	if one := c.owner(parts[c.random.IntN(len(parts))]); one != nil && c.random.IntN(2) == 0 {
		return one
	}
	return c.nodes[c.random.IntN(len(c.nodes))]
}

// spread is a connection of which each call goes to a node by chance.
type spread []*grpc.ClientConn

func (c *cluster) newSpread() spread {
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

// packs are the files of what the load needs.
func packs(t *testing.T) []string {
	t.Helper()
	return append([]string{"../testdata/crash.pack.yaml", "../testdata/desk.pack.yaml", "testdata/ping.pack.json"}, chargePacks(t)...)
}

// TestClusterUnderFaults: PAWL_FAULTS faults by PAWL_SEED, while runs are driven, worked on and
// read in several namespaces through all nodes. In each nothing that was acknowledged is lost, no
// effect is had twice, what was answered has an order, a reader of everything sees each record once
// and in order, and every run ends; what is in one is in no other. No node is without an owner of any
// partition for long, and in the end all have their share.
func TestClusterUnderFaults(t *testing.T) {
	faults, runs := number("PAWL_FAULTS", len(allFaults)), number("PAWL_RUNS", 20)
	c := newCluster(t, number("PAWL_NODES", 3), 4)
	ctx, cancel := context.WithTimeout(c.ctx, 2*time.Minute+time.Duration(faults)*patience)
	defer cancel()
	l := newLoad(ctx, c, runs)
	var beside sync.WaitGroup
	l.begin(&beside)
	if !c.isSingle {
		t.Logf("the nodes share evenly %v after they serve", c.awaitEvenShares(time.Now(), patience))
	}
	driven := play.UnderCrashes(ctx, t, faults, max(runs/4, len(l.spaces)), l.client,
		c.faults(func(ctx context.Context, acked *atomic.Int64) {
			play.AwaitCount(ctx, t, acked, acked.Load()+20+c.random.Int64N(60))
		}))
	if !c.isSingle {
		t.Logf("the nodes share evenly %v after the last fault", c.awaitEvenShares(time.Now(), shared))
	}
	l.end()
	beside.Wait()
	l.checkAll(driven)
	c.waits.report(t, c)
	l.compared(driven)
	c.stopped()
	testkit.ReportTried(t, faults, "faults of nodes, connections and the database")
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
	c.t.Logf("pawl check: %s", strings.TrimSpace(string(out)))
	if err != nil {
		c.t.Errorf("pawl check: %v", err)
	}
}
