//go:build sim

package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/test/simulation/pg"
)

// warded returns the namespaces besides the default one that the cluster of a seed serves, each in a
// partition of its own. Seeds whose last two digits are 65 or more have one. Those of them in an odd
// hundred have two.
func warded(seed uint64) []string {
	spaces := []string{"red", "blue"}
	if _, members := clustered(seed); members == 0 || seed%100 < 65 {
		return nil
	}
	return spaces[:1+seed/100%2]
}

// newWard returns a namespace of a cluster in a partition of its own, as a node without a machine. A
// member of the cluster owns its store.
func newWard(c *cluster, space string) *node {
	n := c.node
	return &node{
		world: n.world, name: n.name + "." + space, space: space, dir: n.dir, disk: n.disk, database: n.database, cluster: c,
		clock: n.clock, wires: n.wires, visits: newVisits(),
	}
}

// wards returns the wards of a node.
func (n *node) wards() []*node {
	if n.cluster == nil {
		return nil
	}
	return n.cluster.wards
}

// stores returns all stores of a cluster: the one of the default namespace and those of the wards.
func (c *cluster) stores() []*node { return append([]*node{c.node}, c.wards...) }

// spaces returns the namespaces that the cluster serves. Their numbers have no meaning.
func (c *cluster) spaces() validate.Namespaces {
	spaces := validate.Namespaces{}
	for i, n := range c.wards {
		spaces[n.space] = uint32(i) + 1
	}
	return spaces.WithDefault()
}

// served refuses a namespace that the cluster does not serve.
func (c *cluster) served(_ context.Context, namespace string) error {
	_, err := c.spaces().Number(namespace)
	return err
}

// machine returns the node whose machine has the store. A ward uses the machine of its cluster.
func (n *node) machine() *node {
	if n.space != "" {
		return n.cluster.node
	}
	return n
}

// namespace returns the namespace of a node's runs.
func (n *node) namespace() string {
	if n.space == "" {
		return runtime.DefaultNamespace
	}
	return n.space
}

// as returns a call in the node's namespace.
func (n *node) as(call runtime.Call) runtime.Call {
	call.Namespace = n.space
	return call
}

// stays records the partition of the node's namespace, which never changes.
func (n *node) stays(part int32) {
	if n.part == nil {
		n.part = &part
	}
	if *n.part != part {
		n.world.fail("a namespace stays in its partition", "%s is in partition %d, and was in %d", n.name, part, *n.part)
	}
}

// number reads the number of a ward's namespace from the store, which assigns one if there is none.
func (p *process) number(ctx context.Context, n *node) error {
	if n.space == "" {
		return nil
	}
	stored, err := p.store.NumberNamespaces(ctx, []string{n.space})
	p.ns = stored[n.space]
	return err
}

// namespaces returns the namespaces of a runtime, as package server does.
func (p *process) namespaces(n *node) validate.Namespaces {
	return validate.Namespaces{n.namespace(): p.ns}.WithDefault()
}

// offer registers the packs of a ward by a call, because no configuration contains them.
func (n *node) offer() {
	packs := pawlv1.NewPackServiceClient(n.cluster.members[0].calls)
	for _, document := range [][]byte{packDocument, tillDocument} {
		if _, err := packs.RegisterPack(context.Background(), &pawlv1.RegisterPackRequest{Namespace: n.space, Content: document}); err != nil {
			n.world.fail("register", "%s: %v", n.name, err)
		}
	}
}

// tokens returns the tokens of a cluster with wards: one for all namespaces, and one for each ward. A call
// with the token of a ward names no namespace.
func (c *cluster) tokens() (all []auth.Token) {
	if c.wards == nil {
		return nil
	}
	for _, n := range c.stores() {
		t := auth.Token{Principal: "people-of-" + n.namespace(), Secret: string(n.token()), Scopes: policy.AnonymousScopes}
		if n.space != "" {
			t.Namespaces = []string{n.space}
		}
		all = append(all, t)
	}
	return all
}

// token returns the token of the callers of a node, if the node requires a token.
func (n *node) token() bearer { return bearer("the-token-of-" + n.namespace()) }

// wardKinds are the calls to wards, and the faults of a member that owns one of several partitions.
var wardKinds = []chance{
	{"visit ward", 34, false}, {"talk in ward", 8, false}, {"stray", 5, false}, {"ask all", 3, false}, {"rest", 4, false}, {"go away", 4, false},
	{"kill in ward", 3, true}, {"leave ward behind", 3, true},
	{"kill owner", 3, true}, {"stop owner", 3, true}, {"cut owner", 3, true}, {"mute owner", 4, true},
}

// withWards adds events of namespaces in their own partitions to a plan. It uses a separate random
// generator, so that the rest of the plan stays the same.
func withWards(actions []action, seed uint64, calm bool) []action {
	if warded(seed) == nil {
		return actions
	}
	at, _ := clustered(seed)
	dice := rand.New(rand.NewPCG(seed, 0x3a7d))
	return mixed(actions, oneIn(dice, 2), func() action {
		b := newAction(dice, calm)
		b.node, b.kind = at, pickKind(dice, calm, wardKinds, "visit ward")
		if b.kind == "rest" { // the rest is long enough for members to give away partitions beyond their share
			b.together, b.after = false, 4*time.Second
		}
		return b
	})
}

// shares executes an action about a ward or about the owner of a partition. It returns false if the action is
// about neither.
func (c *cluster) shares(k kind, dice *rand.Rand) bool {
	if !slices.ContainsFunc(wardKinds, func(w chance) bool { return w.kind == k }) {
		return false
	}
	ward, m := c.wards[dice.IntN(len(c.wards))], c.members[dice.IntN(len(c.members))]
	some := time.Duration(dice.IntN(7000)) * time.Millisecond
	switch k {
	case "visit ward":
		ward.visit(m, dice)
	case "talk in ward":
		ward.talk(dice)
	case "stray":
		ward.stray(m, dice)
	case "ask all":
		c.askAll(m)
	case "kill in ward":
		c.killUnder(ward, dice)
	case "leave ward behind":
		c.leaveBehind(ward, dice)
	case "go away":
		m.leave(5*time.Second + some)
	default:
		all := c.stores()
		c.befalls(k, all[dice.IntN(len(all))], some)
	}
	return true
}

// `befalls` executes a fault of the member that owns a store.
func (c *cluster) befalls(k kind, n *node, some time.Duration) {
	p := n.process()
	if p == nil {
		return
	}
	switch m := p.life.of; k {
	case "kill owner":
		m.kill()
		n.world.later(some/4, m.start)
	case "stop owner":
		m.stop(some)
	case "cut owner":
		m.cut(some)
	case "mute owner":
		m.mute(n, some)
	}
}

// mute takes away the answers about one partition from a process for a while. Its other statements are
// answered.
func (m *member) mute(n *node, d time.Duration) {
	if l := m.process(); l != nil {
		bit := uint64(1) << l.parts[n.namespace()]
		n.world.note("%s is not answered about %s for %v", l.name, n.name, d)
		n.database.SetClient(l.name, func(c *pg.Client) { c.Mute |= bit })
		n.world.later(d, func() { n.database.SetClient(l.name, func(c *pg.Client) { c.Mute &^= bit }) })
	}
}

// talk executes the turn of a run in a ward whose caller executes its turns.
func (n *node) talk(dice *rand.Rand) {
	run := n.visits.recent(dice)
	if s := n.world.oracle(n).states[run]; s != nil && s.Execution == machine.Caller {
		n.world.people.talk(n, run, dice.Uint64())
	}
}

// stray asks in one namespace about a run of another namespace.
func (n *node) stray(m *member, dice *rand.Rand) {
	all := n.cluster.stores()
	other := all[dice.IntN(len(all))]
	run := other.visits.recent(dice)
	if other == n || run == "" {
		return
	}
	id := n.visits.id()
	n.reach(m, "stray see "+short(run), func(ctx context.Context) error {
		_, err := m.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: n.space, RunId: run})
		return n.foreign(run, err)
	})
	n.reach(m, "stray input "+id, func(ctx context.Context) error {
		_, err := m.runs.SendInput(ctx, &pawlv1.SendInputRequest{Namespace: n.space, RunId: run, Parts: textParts(id), MessageId: id})
		return n.foreign(run, err)
	})
}

// askAll makes the calls to a member that are about all partitions.
func (c *cluster) askAll(m *member) {
	c.node.reach(m, "limits of all", func(ctx context.Context) error {
		_, err := pawlv1.NewControlServiceClient(m.calls).ListLimits(ctx, &pawlv1.ListLimitsRequest{})
		return err
	})
	c.node.reach(m, "partitions", func(ctx context.Context) error {
		got, err := pawlv1.NewStoreServiceClient(m.calls).ListPartitions(ctx, &pawlv1.ListPartitionsRequest{})
		if err == nil && len(got.GetPartitions()) != len(c.stores()) {
			c.node.world.fail("what is served is known", "%s lists %v", m.name, got.GetPartitions())
		}
		return err
	})
}

// foreign checks that a run of another namespace is not found.
func (n *node) foreign(run string, err error) error {
	if err == nil {
		n.world.fail("a run is in its namespace alone", "%s is found in %s", run, n.name)
	}
	return err
}

// levelling is the longest time without faults until the partitions are evenly distributed. A node that
// got a partition back gives none away for a minute.
const levelling = 75 * time.Second

// lookOn is how long the distribution is observed afterwards. It is longer than nodes wait before they
// give a partition away.
const lookOn = 5 * time.Second

// level checks that no member has two partitions more than another, that no partition moves, and that
// each member accepts all calls.
func (n *node) level() {
	if n.wards() == nil {
		return
	}
	c, began := n.cluster, time.Now()
	for !c.even() {
		if time.Since(began) > levelling {
			n.world.fail("shares are even", "%s: after %v without faults they are had by %q", n.name, levelling, c.owners())
			return
		}
		time.Sleep(time.Second)
	}
	before := c.owners()
	time.Sleep(lookOn)
	if now := c.owners(); !slices.Equal(before, now) {
		n.world.fail("nothing moves that need not", "%s: %q had them, and then %q", n.name, before, now)
	}
	for _, of := range c.stores() {
		for _, m := range c.members {
			if _, err := m.runs.ListRuns(context.Background(), &pawlv1.ListRunsRequest{Namespace: of.space}); err != nil {
				n.world.fail("each sidecar takes all calls", "%s about %s: %v", m.name, of.name, err)
			}
		}
	}
}

// owners returns the owner of each store. "" means that a store has none.
func (c *cluster) owners() (names []string) {
	for _, n := range c.stores() {
		name := ""
		if p := n.process(); p != nil {
			name = p.life.name
		}
		names = append(names, name)
	}
	return names
}

// even reports whether all members live, each store has an owner, and no member owns two stores more than
// another one.
func (c *cluster) even() bool {
	owners := c.owners()
	most, least := 0, len(owners)
	for _, m := range c.members {
		l := m.process()
		if l == nil || l.leaving {
			return false
		}
		has := len(slices.DeleteFunc(slices.Clone(owners), func(name string) bool { return name != l.name }))
		most, least = max(most, has), min(least, has)
	}
	return !slices.Contains(owners, "") && most-least < 2
}
