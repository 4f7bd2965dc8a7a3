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
	what string
	make func(c *cluster, n *node)
	// one: it happens to one node. several: there has to be another one. often: it comes twice in a
	// round, but in a short test.
	one, several, often bool
}

// deck has each fault that there is.
var deck = []fault{
	{"SIGKILL", (*cluster).kill, true, false, true},
	{"SIGTERM", (*cluster).restart, true, false, true},
	{"SIGSTOP for longer than the lease", (*cluster).suspend, true, true, true},
	{"connections to the database cut", func(_ *cluster, n *node) { n.database[0].Cut(); n.database[1].Cut() }, true, false, false},
	{"no database for one node", (*cluster).isolate, true, true, false},
	{"connections between nodes cut", func(_ *cluster, n *node) { n.peers.Cut() }, true, true, false},
	{"one node reached by no other", (*cluster).hide, true, true, false},
	{"primary killed, standby promoted", func(c *cluster, _ *node) { c.db.failOver() }, false, false, false},
	{"the database stands still", func(c *cluster, _ *node) { c.still((*database).server) }, false, false, false},
	{"the standby stands still", func(c *cluster, _ *node) { c.still((*database).standby) }, false, false, false},
	{"slow disk of the database", func(c *cluster, _ *node) { c.creep() }, false, false, false},
	{"the database's clock is put back an hour", func(c *cluster, _ *node) { c.db.jump(-time.Hour) }, false, false, false},
	{workerKilled, (*cluster).dismiss, false, false, true},
}

// What concerns no node, and nobody at all.
const (
	workerKilled = "worker killed"
	nothing      = "nothing"
)

// deal is the next fault of a round that is shuffled anew when it is used up.
func (c *cluster) deal() (f fault) {
	for len(c.left) == 0 {
		for _, f := range deck {
			if f.several && c.alone {
				continue
			}
			if c.left = append(c.left, f); f.often && !short() {
				c.left = append(c.left, f)
			}
		}
		c.random.Shuffle(len(c.left), func(i, j int) { c.left[i], c.left[j] = c.left[j], c.left[i] })
	}
	f, c.left = c.left[0], c.left[1:]
	return f
}

// faults makes one fault after the other. Before each it waits for progress, first and now and then at
// rest; after it until every partition is served at all nodes.
func (c *cluster) faults(progress func(context.Context, *atomic.Int64)) func(context.Context, *atomic.Int64) {
	rest := true
	return func(ctx context.Context, acked *atomic.Int64) {
		f := c.deal()
		if rest || f.what == workerKilled {
			c.rest(ctx)
		}
		progress(ctx, acked)
		n, whose := c.victim(), "all"
		var had map[int32]bool
		if f.one {
			had = c.had(n)
			whose = fmt.Sprintf("%s, which had %v", n.name, slices.Sorted(maps.Keys(had)))
		}
		c.waits.during(f.what, had)
		began := time.Now()
		f.make(c, n)
		progress(ctx, acked)
		c.answered(ctx)
		if ctx.Err() != nil {
			return
		}
		c.t.Logf("%s %s: %s, over after %v", stamp(began), f.what, whose, time.Since(began).Round(time.Millisecond))
		rest = c.random.IntN(3) == 0
	}
}

// rest begins when all have their share.
func (c *cluster) rest(ctx context.Context) {
	if !c.alone {
		c.t.Logf("all have their share after %v", c.even(time.Now(), patience))
	}
	c.answered(ctx)
	c.waits.during(nothing, nil)
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

// gone waits until the others take a node for dead, and have all that it had.
func (c *cluster) gone(n *node) {
	c.t.Helper()
	c.db.server().Await(c.t, "postgres", fmt.Sprintf(
		"SELECT NOT EXISTS (SELECT FROM pawl.node WHERE address = '%[1]s' AND lease_until BETWEEN now() AND now() + interval '6 s') AND NOT EXISTS (SELECT FROM pawl.part WHERE lease_until <= now() OR address = '%[1]s')",
		n.peers.Addr()))
}

// suspend stops a process until others have what it had.
func (c *cluster) suspend(n *node) {
	n.excused()
	n.signal(syscall.SIGSTOP)
	c.gone(n)
	n.signal(syscall.SIGCONT)
	n.accountable()
}

// isolate keeps a node from the database until others have what it had.
func (c *cluster) isolate(n *node) {
	n.excused()
	for _, way := range n.database {
		way.Refuse()
	}
	c.gone(n)
	for _, way := range n.database {
		way.Accept()
	}
	n.accountable()
}

// hide keeps other nodes from one for a while. Whoever asks them meanwhile is told to come back.
func (c *cluster) hide(n *node) {
	for _, one := range c.nodes {
		one.excused()
	}
	n.peers.Hold(relay.Answers)
	c.linger(time.Second)
	n.peers.Release(relay.Answers)
	n.peers.Refuse()
	c.linger(2 * time.Second)
	n.peers.Accept()
	for _, one := range c.nodes {
		one.accountable()
	}
}

// still has a server of the database do nothing for up to two leases.
func (c *cluster) still(which func(*database) *pgserver.Server) {
	server := which(c.db)
	server.Pause(c.t)
	c.linger(time.Duration(500+c.random.IntN(5500)) * time.Millisecond)
	server.Resume(c.t)
}

// creep has the database be slow for a lease.
func (c *cluster) creep() {
	c.db.slow(true)
	c.linger(3 * time.Second)
	c.db.slow(false)
}

// dismiss kills a worker, and starts another one in its place.
func (c *cluster) dismiss(*node) {
	if len(c.hands) > 0 {
		c.hands[c.random.IntN(len(c.hands))].replace()
	}
}

// linger is how long a fault lasts that nothing ends.
func (c *cluster) linger(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
