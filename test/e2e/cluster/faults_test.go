package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// A fault happens to one node, the owner of some partition half of the time, or to all, and is over
// when it returns.
type fault struct {
	name string
	make func(c *cluster, n *node)
	// one: it happens to one node. several: there has to be another one. isFrequent: it comes twice in a
	// round, but in a short test.
	one, several, isFrequent bool
}

// allFaults has each fault that there is.
var allFaults = []fault{
	{"SIGKILL", (*cluster).kill, true, false, true},
	{"SIGTERM", (*cluster).restart, true, false, true},
	{"SIGSTOP for longer than the lease", (*cluster).suspend, true, true, true},
	{"connections to the database cut", func(_ *cluster, n *node) { n.database[0].Cut(); n.database[1].Cut() }, true, false, false},
	{"no database for one node", (*cluster).cutFromDatabase, true, true, false},
	{"connections between nodes cut", func(_ *cluster, n *node) { n.peers.Cut() }, true, true, false},
	{"one node reached by no other", (*cluster).hideFromNodes, true, true, false},
	{"primary killed, standby promoted", func(c *cluster, _ *node) { c.db.failOver() }, false, false, false},
	{"the database stands still", func(c *cluster, _ *node) { c.suspendServer((*database).server) }, false, false, false},
	{"the standby stands still", func(c *cluster, _ *node) { c.suspendServer((*database).standby) }, false, false, false},
	{"slow disk of the database", func(c *cluster, _ *node) { c.slowDatabase() }, false, false, false},
	{"the database's clock is put back an hour", func(c *cluster, _ *node) { c.db.shiftClock(-time.Hour) }, false, false, false},
	{workerKilled, (*cluster).dismiss, false, false, true},
}

// These are faults that concern no node, and no caller at all.
const (
	workerKilled = "worker killed"
	noFault      = "nothing"
)

// nextFault returns the next fault of a round. It shuffles the round again when all its faults were used.
func (c *cluster) nextFault() (f fault) {
	for len(c.remainingFaults) == 0 {
		for _, f := range allFaults {
			if f.several && c.isSingle {
				continue
			}
			if c.remainingFaults = append(c.remainingFaults, f); f.isFrequent && !short() {
				c.remainingFaults = append(c.remainingFaults, f)
			}
		}
		c.random.Shuffle(len(c.remainingFaults), func(i, j int) {
			c.remainingFaults[i], c.remainingFaults[j] = c.remainingFaults[j], c.remainingFaults[i]
		})
	}
	f, c.remainingFaults = c.remainingFaults[0], c.remainingFaults[1:]
	return f
}

// faults makes one fault after the other. Before each it waits for progress, first and now and then at
// rest; after it until every partition is served at all nodes.
func (c *cluster) faults(progress func(context.Context, *atomic.Int64)) func(context.Context, *atomic.Int64) {
	rest := true
	return func(ctx context.Context, acked *atomic.Int64) {
		f := c.nextFault()
		if rest || f.name == workerKilled {
			c.rest(ctx)
		}
		progress(ctx, acked)
		n, whose := c.victim(), "all"
		var partitions map[int32]bool
		if f.one {
			partitions = c.ownedPartitions(n)
			whose = fmt.Sprintf("%s, which had %v", n.name, slices.Sorted(maps.Keys(partitions)))
		}
		c.waits.beginIncident(f.name, partitions)
		began := time.Now()
		f.make(c, n)
		progress(ctx, acked)
		c.answered(ctx)
		if ctx.Err() != nil {
			return
		}
		c.t.Logf("%s %s: %s, over after %v", stamp(began), f.name, whose, time.Since(began).Round(time.Millisecond))
		rest = c.random.IntN(3) == 0
	}
}

// rest begins when all have their share.
func (c *cluster) rest(ctx context.Context) {
	if !c.isSingle {
		c.t.Logf("all have their share after %v", c.awaitEvenShares(time.Now(), patience))
	}
	c.answered(ctx)
	c.waits.beginIncident(noFault, nil)
}

func (c *cluster) kill(n *node) {
	n.end(syscall.SIGKILL)
	n.start()
}

func (c *cluster) restart(n *node) {
	n.end(syscall.SIGTERM)
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Errorf("node %s: exit code %d after SIGTERM", n.name, code)
	}
	n.start()
}

// awaitTakeover waits until the others take a node for dead, and have all that it had.
func (c *cluster) awaitTakeover(n *node) {
	c.t.Helper()
	c.db.server().Await(c.t, "postgres", fmt.Sprintf(
		"SELECT NOT EXISTS (SELECT FROM pawl.node WHERE address = '%[1]s' AND lease_until BETWEEN now() AND now() + interval '6 s') AND NOT EXISTS (SELECT FROM pawl.part WHERE lease_until <= now() OR address = '%[1]s')",
		n.peers.Addr()))
}

// suspend stops a process until others have what it had.
func (c *cluster) suspend(n *node) {
	n.excuse()
	n.signal(syscall.SIGSTOP)
	c.awaitTakeover(n)
	n.signal(syscall.SIGCONT)
	n.accountable()
}

// cutFromDatabase keeps a node from the database until others have what it had.
func (c *cluster) cutFromDatabase(n *node) {
	n.excuse()
	for _, way := range n.database {
		way.Refuse()
	}
	c.awaitTakeover(n)
	for _, way := range n.database {
		way.Accept()
	}
	n.accountable()
}

// hideFromNodes makes a node invisible to the other nodes for a while. Callers of the others are then asked to
// come back.
func (c *cluster) hideFromNodes(n *node) {
	for _, one := range c.nodes {
		one.excuse()
	}
	n.peers.Hold(relay.Answers)
	c.keepFault(time.Second)
	n.peers.Release(relay.Answers)
	n.peers.Refuse()
	c.keepFault(2 * time.Second)
	n.peers.Accept()
	for _, one := range c.nodes {
		one.accountable()
	}
}

// suspendServer has a server of the database do nothing for up to two leases.
func (c *cluster) suspendServer(which func(*database) *pgserver.Server) {
	server := which(c.db)
	server.Pause(c.t)
	c.keepFault(time.Duration(500+c.random.IntN(5500)) * time.Millisecond)
	server.Resume(c.t)
}

// slowDatabase has the database be slow for a lease.
func (c *cluster) slowDatabase() {
	c.db.setSlow(true)
	c.keepFault(3 * time.Second)
	c.db.setSlow(false)
}

// dismiss kills a worker, and starts another one in its place.
func (c *cluster) dismiss(*node) {
	if len(c.workers) > 0 {
		c.workers[c.random.IntN(len(c.workers))].replace()
	}
}

// keepFault is how long a fault lasts that nothing ends.
func (c *cluster) keepFault(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
