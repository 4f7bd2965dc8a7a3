package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/testkit/pg"
	"github.com/pawl-dev/pawl/internal/testkit/relay"
)

// A fault happens to one node, the owner half of the time, or to all, and is over when it
// returns.
type fault struct {
	what string
	make func(c *cluster, n *node)
	// several: there has to be another node.
	several bool
}

// workerKilled is what concerns no node.
const workerKilled = "worker killed"

// deck has each fault as often as it comes in a round.
var deck = []fault{
	{"SIGKILL", (*cluster).kill, false},
	{"SIGKILL", (*cluster).kill, false},
	{"SIGTERM", (*cluster).restart, false},
	{"SIGTERM", (*cluster).restart, false},
	{"SIGSTOP for longer than the lease", (*cluster).suspend, true},
	{"SIGSTOP for longer than the lease", (*cluster).suspend, true},
	{"connections to the database cut", func(_ *cluster, n *node) { n.database[0].Cut(); n.database[1].Cut() }, false},
	{"no database for one node", (*cluster).isolate, true},
	{"connections between nodes cut", func(_ *cluster, n *node) { n.peers.Cut() }, true},
	{"one node reached by no other", (*cluster).hide, true},
	{"primary killed, standby promoted", func(c *cluster, _ *node) { c.db.failOver() }, false},
	{"the database stands still", func(c *cluster, _ *node) { c.still((*database).server) }, false},
	{"the standby stands still", func(c *cluster, _ *node) { c.still((*database).standby) }, false},
	{"slow disk of the database", func(c *cluster, _ *node) { c.creep() }, false},
	{"the database's clock is put back an hour", func(c *cluster, _ *node) { c.db.jump(-time.Hour) }, false},
	{workerKilled, (*cluster).dismiss, false},
	{workerKilled, (*cluster).dismiss, false},
}

// faults deals one fault after the other from a deck that is shuffled anew when it is used up.
// Before each it waits for progress, after it until all nodes serve.
func (c *cluster) faults(progress func(context.Context, *atomic.Int64)) func(context.Context, *atomic.Int64) {
	var left []fault
	return func(ctx context.Context, acked *atomic.Int64) {
		progress(ctx, acked)
		if len(left) == 0 {
			for _, i := range c.random.Perm(len(deck)) {
				if !deck[i].several || len(c.nodes) > 1 {
					left = append(left, deck[i])
				}
			}
		}
		f, n := left[0], c.victim()
		left = left[1:]
		whose := "another node"
		if n == c.owner() {
			whose = "the owner"
		}
		c.waits.during(fmt.Sprintf("%s (%s)", f.what, whose))
		began := time.Now()
		f.make(c, n)
		progress(ctx, acked)
		if ctx.Err() != nil {
			return
		}
		c.t.Logf("%s %s: %s, %s, over after %v", stamp(began), f.what, n.name, whose, time.Since(began).Round(time.Millisecond))
	}
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

// gone waits until the others take a node for dead, and another has the store.
func (c *cluster) gone(n *node) {
	c.t.Helper()
	c.db.server().Await(c.t, "postgres", fmt.Sprintf(
		"SELECT NOT EXISTS (SELECT FROM pawl.node WHERE address = '%[1]s' AND lease_until BETWEEN now() AND now() + interval '6 s') AND EXISTS (SELECT FROM pawl.part WHERE id = 0 AND lease_until > now() AND address <> '%[1]s')",
		n.peers.Addr()))
}

// suspend stops a process until another has what it had.
func (c *cluster) suspend(n *node) {
	n.excused()
	n.signal(syscall.SIGSTOP)
	c.gone(n)
	n.signal(syscall.SIGCONT)
	n.accountable()
}

// isolate keeps a node from the database until another has what it had.
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
func (c *cluster) still(which func(*database) *pg.Server) {
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
