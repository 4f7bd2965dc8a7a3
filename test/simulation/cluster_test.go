//go:build sim

package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/test/simulation/pg"
	"github.com/pawl-dev/pawl/test/simulation/pipes"
)

// clusterEvery selects the seeds with a cluster: in one of this many seeds, a node is several sidecars
// on one database. The numbers of these seeds end with 5.
const clusterEvery = 10

// clustered returns which node of a seed is a cluster, and the number of its members.
func clustered(seed uint64) (node, members int) {
	if seed%clusterEvery != clusterEvery/2 {
		return -1, 0
	}
	return int(seed / clusterEvery % 2), 2 + int(seed/clusterEvery/2%2)
}

// cluster is a node that consists of several sidecars on one database. Direct calls of the runtime go
// to the owner. All other callers connect to any member.
type cluster struct {
	node    *node
	net     *pipes.Net
	members []*member
	dice    *rand.Rand
	// sick is the time until which the database has a fault.
	sick time.Time
	// wards are the cluster's namespaces in partitions of their own, in addition to the default
	// namespace.
	wards []*node
}

// gap has the time since which a store has no owner although a member could own it, and the longest
// such time.
type gap struct {
	since   time.Time
	longest time.Duration
}

// member is a machine of a cluster: it has one process at a time.
type member struct {
	of    *node
	name  string
	clock *clock
	lives int
	// now is the member's process, or nil if there is none. The node's lock protects it.
	now     *life
	booting bool
	// able has the time since which the member lives and reaches a store in the database. Zero means
	// that it does not.
	able map[*node]time.Time
	// calls is the connection of all callers to the member. It leads to the present process of the
	// member.
	calls *grpc.ClientConn
	runs  pawlv1.RunServiceClient
}

func newCluster(n *node, members int) *cluster {
	c := &cluster{node: n, net: pipes.New(), dice: rand.New(rand.NewPCG(n.world.seed, 0xc1))}
	n.visits, n.database = newVisits(), pg.NewServer(n.url())
	n.database.SetFaults(func(f *pg.Faults) {
		f.Sync, f.Afterlife = n.world.knobs.sync, pick(c.dice, 0, 100*time.Millisecond, 2*time.Second, 4*time.Second)
	})
	n.database.Watch(func(what string) { n.world.fail("one epoch commits at a time", "%s: %s", n.name, what) })
	for i := range members {
		c.members = append(c.members, &member{of: n, name: fmt.Sprintf("%s%c", n.name, 'a'+i), clock: newClock(n.world.knobs.evening), able: map[*node]time.Time{}})
	}
	for _, space := range warded(n.world.seed) {
		c.wards = append(c.wards, newWard(c, space))
	}
	return c
}

// show records that a process owns the store.
func (n *node) show(p *process) {
	n.mu.Lock()
	other := n.live
	n.live = p
	n.mu.Unlock()
	n.world.note("%s has the store of %s", p.life.name, n.name)
	if other != nil {
		n.world.fail("one owner at a time", "%s and %s have the store by leases that hold", other.life.name, p.life.name)
	}
}

// hide records that a process may no longer own the store.
func (n *node) hide(p *process) {
	n.mu.Lock()
	if n.live == p {
		n.live = nil
	}
	n.mu.Unlock()
	n.world.note("%s has the store of %s no more", p.life.name, n.name)
}

// start boots the members that are down.
func (c *cluster) start() {
	for _, m := range c.members {
		m.start()
	}
}

func (m *member) start() {
	n := m.of
	n.mu.Lock()
	if m.now != nil || m.booting {
		n.mu.Unlock()
		return
	}
	m.booting = true
	n.mu.Unlock()
	l, err := m.boot()
	n.mu.Lock()
	m.booting, m.now = false, l
	n.mu.Unlock()
	if errors.Is(err, errUnplaced) {
		n.world.later(time.Second, m.start) // a real supervisor would also start it again
		return
	}
	if err != nil {
		n.world.fail("start", "%s: %v", m.name, err)
		return
	}
	n.world.note("%s lives", l.name)
}

// process returns the living process of a member, or nil if the member is down.
func (m *member) process() *life {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	return m.now
}

// gone records that a process has ended. It returns false if the process was not the member's living
// process.
func (m *member) gone(l *life) bool {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if l == nil || m.now != l {
		return false
	}
	m.now = nil
	return true
}

// kill ends the process of a member.
func (m *member) kill() {
	if l := m.process(); m.gone(l) {
		m.of.world.note("%s is dead", l.name)
		l.kill()
	}
}

// leave ends the process of a member with a handover, and starts it again later.
func (m *member) leave(d time.Duration) {
	l, n := m.process(), m.of
	if l == nil {
		return
	}
	n.mu.Lock()
	again := l.leaving
	l.leaving = true
	n.mu.Unlock()
	if again {
		return
	}
	n.buried.Go(func() {
		l.leave()
		n.world.note("%s has left", l.name)
		n.world.later(d, m.start)
	})
}

// stop stops a process for a while.
func (m *member) stop(d time.Duration) {
	l := m.process()
	if l == nil {
		return
	}
	m.of.world.note("%s is stopped for %v", l.name, d)
	l.stands(true)
	l.gate.Shut()
	m.of.world.later(d, func() {
		l.gate.Open()
		if m.process() == l {
			l.stands(false)
		}
	})
}

// cut separates a process from its database for a while. part separates it from the other members.
func (m *member) cut(d time.Duration) {
	if l := m.process(); l != nil {
		m.of.world.note("%s does not reach the database for %v", l.name, d)
		m.of.database.SetClient(l.name, func(c *pg.Client) { c.Cut = true })
		m.of.world.later(d, func() { m.of.database.SetClient(l.name, func(c *pg.Client) { c.Cut = false }) })
	}
}

func (m *member) part(d time.Duration) {
	if l := m.process(); l != nil {
		m.of.world.note("%s does not reach its peers for %v", l.name, d)
		m.of.cluster.net.Cut(l.name)
		m.of.world.later(d, func() { m.of.cluster.net.Mend(l.name) })
	}
}

// memberKinds are the faults and the calls that concern one of several sidecars.
var memberKinds = []chance{
	{"visit", 40, false}, {"hand over", 3, false},
	{"kill under a call", 4, true}, {"leave behind", 3, true},
	{"kill node", 3, true}, {"stop node", 3, true}, {"cut node", 3, true}, {"part node", 2, true}, {"node jumps", 2, true},
}

// withMembers adds the events of a cluster to a plan. It uses a separate random generator, so that the
// rest of the plan is the same as without a cluster.
func withMembers(actions []action, seed uint64, calm bool) []action {
	at, _ := clustered(seed)
	if at < 0 {
		return actions
	}
	dice := rand.New(rand.NewPCG(seed, 0xc105))
	return mixed(actions, func() int { return dice.IntN(3) }, func() action {
		b := newAction(dice, calm)
		b.node, b.kind = at, pickKind(dice, calm, memberKinds, "visit")
		return b
	})
}

// does executes an action about one member, which dice choose. It returns false if the action is not
// about a member.
func (c *cluster) does(k kind, dice *rand.Rand) bool {
	if c.wards != nil && c.shares(k, dice) {
		return true
	}
	m := c.members[dice.IntN(len(c.members))]
	if owner := c.node.process(); owner != nil && dice.IntN(2) == 0 {
		m = owner.life.of
	}
	if c.corresponds(k, m, dice) {
		return true
	}
	some := time.Duration(dice.IntN(7000)) * time.Millisecond
	switch k {
	case "visit":
		c.node.visit(m, dice)
	case "hand over":
		m.leave(time.Second)
	case "kill under a call":
		c.killUnder(c.node, dice)
	case "leave behind":
		c.leaveBehind(c.node, dice)
	case "kill node":
		m.kill()
		c.node.world.later(some/4, m.start)
	case "stop node":
		m.stop(some)
	case "cut node":
		m.cut(some)
	case "part node":
		m.part(some)
	case "jump", "node jumps":
		c.node.world.jumped = true
		m.clock.jump(pick(dice, time.Minute, -time.Minute, time.Hour, -time.Hour))
	default:
		return false
	}
	return true
}

// heal ends the faults of the members.
func (c *cluster) heal(ahead time.Duration) {
	c.sick = time.Now()
	for _, m := range c.members {
		m.clock.jump(ahead - m.clock.skew)
		if l := m.process(); l != nil {
			c.node.database.SetClient(l.name, func(c *pg.Client) { c.Cut, c.Mute = false, 0 })
			c.net.Mend(l.name)
			l.gate.Open()
			l.stands(false)
		}
	}
}

// ownerless is the longest time that a store may have no owner while a member lives, reaches the
// database and can commit. It is the time of a lease, and of the pause after a failed attempt to own
// the store.
const ownerless = dbLease + 9*time.Second

// watch checks until the end of the simulation that no store is without an owner for longer than
// ownerless.
func (c *cluster) watch() {
	w, now := c.node.world, time.Now()
	for _, n := range c.stores() {
		n.gap.since = now
	}
	for {
		select {
		case <-w.over:
			return
		case <-time.After(100 * time.Millisecond):
		}
		for _, n := range c.stores() {
			if gap := c.without(n, time.Now()); gap > ownerless {
				w.fail("a store has an owner", "%s: nobody has it for %v", n.name, gap)
				return
			}
		}
	}
}

// without returns for how long a store has had no owner although a member could own it.
func (c *cluster) without(n *node, now time.Time) (gap time.Duration) {
	first := now
	for _, m := range c.members {
		if able := m.ables(n, now); !able.IsZero() && able.Before(first) {
			first = able
		}
	}
	if n.process() != nil || now.Before(c.sick) {
		n.gap.since = now
		return 0
	}
	if gap = now.Sub(n.gap.since); first.After(n.gap.since) {
		gap = now.Sub(first)
	}
	n.gap.longest = max(n.gap.longest, gap)
	return gap
}

// ables records since when a member could own a store.
func (m *member) ables(n *node, now time.Time) time.Time {
	l := m.process()
	if l == nil || l.leaving || l.stopped || !m.of.database.Reaches(l.name) || m.of.database.Muted(l.name, l.parts[n.namespace()]) {
		m.able[n] = time.Time{}
	} else if m.able[n].IsZero() {
		m.able[n] = now
	}
	return m.able[n]
}

// stands stops the process, or lets it continue.
func (l *life) stands(stopped bool) {
	l.stopped = stopped
	for _, s := range l.seats {
		s.set(func() { s.stopped = stopped })
	}
}

// ahead returns the largest lead that a clock of the node ever had.
func (n *node) ahead() time.Duration {
	ahead := n.clock.ahead
	if n.cluster != nil {
		for _, m := range n.cluster.members {
			ahead = max(ahead, m.clock.ahead)
		}
	}
	return ahead
}

// call connects the callers to each member.
func (c *cluster) call() {
	for _, m := range c.members {
		var err error
		if m.calls, err = c.node.dialTo(m); err != nil {
			c.node.world.fail("dial", "%v", err)
			return
		}
		m.runs = pawlv1.NewRunServiceClient(m.calls)
	}
}

// hangUp closes the connections that call has opened.
func (c *cluster) hangUp() {
	for _, m := range c.members {
		_ = m.calls.Close()
	}
}

// end kills all members.
func (c *cluster) end() {
	for _, m := range c.members {
		m.kill()
	}
}

// server returns the server of a member or, if m is nil, of any living member.
func (c *cluster) server(m *member) (*grpcapi.Server, *life) {
	if m == nil {
		from := c.dice.IntN(len(c.members))
		for i := range c.members {
			if m = c.members[(from+i)%len(c.members)]; m.process() != nil {
				break
			}
		}
	}
	if l := m.process(); l != nil {
		return l.server, l
	}
	return nil, nil
}

// killUnder kills the owner of a store while it executes calls that other members forwarded.
func (c *cluster) killUnder(n *node, dice *rand.Rand) {
	owner := n.process()
	if owner == nil {
		return
	}
	for _, m := range c.members {
		if run := n.visits.recent(dice); m != owner.life.of && run != "" {
			n.once(m, n.visits.id(), run)
			n.ask(m, n.inputVisit(n.visits.id(), run))
		}
	}
	w := n.world
	w.later(time.Duration(dice.Int64N(int64(2*w.knobs.sync+time.Millisecond))), owner.life.of.kill)
	w.later(5*time.Second, owner.life.of.start)
}

// leaveBehind separates the owner of a store from the database, and asks it about runs that have
// continued at the next owner.
func (c *cluster) leaveBehind(n *node, dice *rand.Rand) {
	owner, run, w := n.process(), n.visits.recent(dice), n.world
	if owner == nil || run == "" {
		return
	}
	old := owner.life.of
	n.see(old, run)
	old.cut(8 * time.Second)
	w.later(5*time.Second, func() {
		for _, m := range c.members {
			if m != old {
				n.ask(m, n.inputVisit(n.visits.id(), run))
			}
		}
	})
	for i := range 3 {
		w.later(6*time.Second+time.Duration(i)*500*time.Millisecond, func() { n.see(old, run) })
	}
}
