package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster/router"
)

const lease = 3 * time.Second

// world is a database in memory with the rows of a cluster, and what the nodes of the cluster believe.
type world struct {
	t    *testing.T
	seed uint64

	mu    sync.Mutex
	rng   *rand.Rand
	rows  map[string]*row
	order int
	// parts are the partitions. share is the first one, for tests of a single partition.
	*share
	parts []*share
	// unreachable: the database answers no node. refusing: the database refuses each statement at once.
	unreachable, refusing bool
	// faultless: there are no random faults.
	faultless bool
	nodes     map[string]*process
}

// share is a partition.
type share struct {
	owner string
	epoch uint64
	ends  time.Time
	// owners are the nodes that had the partition, in order.
	owners []string
	// beliefs are the periods in which nodes believed that they had the partition.
	beliefs []belief
}

type row struct {
	member Member
	since  int
	seenAt time.Time
	ends   time.Time
}

// view returns the node as it appears in a view.
func (r *row) view() Member {
	m := r.member
	m.New = r.ends.Sub(r.seenAt) < 2*lease
	return m
}

type belief struct {
	node     string
	from, to time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), rows: map[string]*row{}, nodes: map[string]*process{}}
	w.divide(1)
	return w
}

// divide creates the partitions. A test calls it before it starts nodes.
func (w *world) divide(parts int) {
	for len(w.parts) < parts {
		w.parts = append(w.parts, &share{})
	}
	w.share = w.parts[0]
}

func (w *world) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) randomDuration(d time.Duration) time.Duration { return time.Duration(w.roll(int(d))) }

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faultless
}

// firstOwner returns the owner of the first partition as stored in the database. "" means that there is
// no owner.
func (w *world) firstOwner() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holder()
}

// holder returns the owner of the partition, or "" if there is none.
func (s *share) holder() string {
	if s.ends.After(time.Now()) {
		return s.owner
	}
	return ""
}

var errAway = errors.New("the database is away")

// process is a process that runs a node.
type process struct {
	*Node
	world *world
	id    string
	ended chan struct{}
	stop  context.CancelFunc
	log   journal

	mu sync.Mutex
	// dead: the process has ended. stopped: the process does nothing until that time. cut: the database
	// does not receive its statements.
	dead, cut  bool
	stopped    time.Time
	epochs     []uint64
	heartbeats int
	// broken: the process cannot open a partition. attempts counts its tries.
	broken   bool
	attempts int
	key      [32]byte
	// seats are the slots by partition. seat is the first one.
	seats []*seat
	seat  *seat
}

var errDead = errors.New("the process is dead")

// pause sleeps for a random time below most, and for as long as the process is stopped.
func (p *process) pause(most time.Duration) error {
	time.Sleep(p.world.randomDuration(most))
	for {
		p.mu.Lock()
		left, dead := time.Until(p.stopped), p.dead
		p.mu.Unlock()
		switch {
		case dead:
			return errDead
		case left <= 0:
			return nil
		}
		time.Sleep(left)
	}
}

// runStatement executes act as a statement, with the time to the database and back.
func (p *process) runStatement(act func()) error {
	if err := p.pause(3 * time.Millisecond); err != nil {
		return err
	}
	lost := p.world.roll(100)
	p.world.mu.Lock()
	p.mu.Lock()
	unreachable := p.cut
	p.mu.Unlock()
	unreachable, refuses := unreachable || p.world.unreachable || !p.world.faultless && lost < 2, p.world.refusing
	if !unreachable || lost == 0 {
		act()
	}
	p.world.mu.Unlock()
	if err := p.pause(3 * time.Millisecond); err != nil {
		return err
	}
	if unreachable {
		if !refuses {
			time.Sleep(p.world.randomDuration(time.Second))
		}
		return errAway
	}
	return nil
}

// Heartbeat does what the SQL statement does.
func (p *process) Heartbeat(_ context.Context, me Member) (v View, err error) {
	w := p.world
	p.mu.Lock()
	epochs := slices.Clone(p.epochs)
	p.heartbeats++
	p.mu.Unlock()
	err = p.runStatement(func() {
		now := time.Now()
		r := w.rows[p.id]
		if r == nil {
			w.order++
			r = &row{since: w.order, seenAt: now}
			w.rows[p.id] = r
		}
		r.member, r.ends = me, now.Add(lease)
		for i, s := range w.parts {
			if s.owner == p.id && s.epoch == epochs[i] && epochs[i] != 0 {
				s.ends = now.Add(lease)
			}
		}
		for _, other := range w.rows {
			if other.ends.After(now) {
				v.Nodes = append(v.Nodes, other.view())
			}
		}
		slices.SortFunc(v.Nodes, func(a, b Member) int { return w.rows[a.ID].since - w.rows[b.ID].since })
		for i, s := range w.parts {
			part := Partition{ID: int32(i)}
			if owner := s.holder(); owner != "" {
				part.Owner, part.Lease = Member{ID: owner, Address: "strange"}, s.ends.Sub(now)
				if r := w.rows[owner]; r != nil {
					part.Owner = r.view()
				}
			}
			v.Parts = append(v.Parts, part)
		}
	})
	return v, err
}

// Deregister removes the row of the node.
func (p *process) Deregister(context.Context, Member) error {
	return p.runStatement(func() { delete(p.world.rows, p.id) })
}

var errHeld = errors.New("another one has it")

// take opens a partition. The process owns the partition while it opens it.
func (p *process) take(ctx context.Context, part int32) (OpenPartition, error) {
	w, epoch := p.world, uint64(0)
	err := p.runStatement(func() {
		s := w.parts[part]
		if s.holder() != "" {
			return
		}
		s.epoch++
		epoch = s.epoch
		s.owner, s.ends = p.id, time.Now().Add(lease)
		s.owners = append(s.owners, p.id)
	})
	if err == nil && epoch == 0 {
		err = errHeld
	}
	if err != nil {
		return nil, err
	}
	p.addBelief(part, epoch)
	how := 50 * time.Millisecond
	if !w.isCalm() && w.roll(4) == 0 {
		how = 2 * lease
	}
	if err := p.pause(how); err != nil {
		return nil, err
	}
	s := &store{process: p, part: part, epoch: epoch, failed: make(chan struct{}), closed: make(chan struct{})}
	p.mu.Lock()
	broken := p.broken
	p.attempts++
	p.mu.Unlock()
	if broken || ctx.Err() != nil || !w.isCalm() && w.roll(6) == 0 {
		return nil, errors.Join(errors.New("it does not open"), s.Close(ctx))
	}
	return s, nil
}

// addBelief sets the epoch under which heartbeats renew the lease of a partition.
func (p *process) addBelief(part int32, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epochs[part] = epoch
}

// store is the ownership of a partition by a process.
type store struct {
	router.Backend
	process        *process
	part           int32
	epoch          uint64
	failed, closed chan struct{}
	once           sync.Once
}

func (s *store) Failed() <-chan struct{} { return s.failed }
func (s *store) Closed() <-chan struct{} { return s.closed }

func (s *store) fail() {
	s.once.Do(func() {
		s.process.addBelief(s.part, 0)
		close(s.failed)
	})
}

func (s *store) Close(context.Context) error {
	p := s.process
	of := p.world.parts[s.part]
	p.addBelief(s.part, 0)
	err := p.runStatement(func() {
		if of.owner == p.id && of.epoch == s.epoch {
			of.owner, of.ends = "", time.Time{}
		}
	})
	close(s.closed)
	return err
}

// seat is a slot that records when it would have accepted calls.
type seat struct {
	process *process
	share   *share
	backend router.Backend
	until   time.Time
	from    time.Time
}

func (s *seat) Attach(t router.Backend) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	if s.backend != nil {
		s.process.world.t.Errorf("seed %d: %s has two tenures", s.process.world.seed, s.process.id)
	}
	s.backend, s.from = t, time.Now()
}

func (s *seat) ExtendLease(until time.Time) {
	w := s.process.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.share.owner == s.process.id && until.Add(margin).After(s.share.ends) {
		w.t.Errorf("seed %d: %s has the store until %v, the lease ends %v", w.seed, s.process.id, until.Format("05.000"), s.share.ends.Format("05.000"))
	}
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	if now := time.Now(); s.backend != nil && s.until.Before(now) {
		s.note(now)
		s.from = now
	}
	s.until = until
}

func (s *seat) Detach(context.Context) (router.Backend, error) {
	s.process.mu.Lock()
	s.note(time.Now())
	s.backend = nil
	s.process.mu.Unlock()
	return nil, s.process.pause(20 * time.Millisecond)
}

// note records a period in which the node believed that it had the partition. The period ends at the given
// time at the latest. The caller holds mu of the process.
func (s *seat) note(to time.Time) {
	if s.backend == nil {
		return
	}
	b := belief{node: s.process.id, from: s.from, to: to}
	if s.until.Before(to) {
		b.to = s.until
	}
	if b.to.After(b.from) {
		go s.process.world.set(func() { s.share.beliefs = append(s.share.beliefs, b) })
	}
}

// servesFirst reports whether the first partition accepts calls.
func (p *process) servesFirst() bool { return p.hasPart(0) }

func (p *process) hasPart(part int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seats[part]
	return s.backend != nil && time.Now().Before(s.until) && !p.dead
}

// journal is the log of a node.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// count returns how often the log contains a text.
func (j *journal) count(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), what)
}

// start starts a node.
func (w *world) start() *process {
	w.mu.Lock()
	id := fmt.Sprintf("node %02d", len(w.nodes))
	p := &process{world: w, id: id, key: [32]byte{1, id[5], id[6]}, ended: make(chan struct{})}
	w.nodes[id] = p
	w.mu.Unlock()
	for _, of := range w.parts {
		p.seats = append(p.seats, &seat{process: p, share: of})
	}
	p.seat, p.epochs = p.seats[0], make([]uint64, len(w.parts))
	p.Node = New(Config{
		Self: Member{ID: id, Address: id + ":1", Key: p.key, Parts: 1<<len(w.parts) - 1}, Registry: p, Open: p.take,
		Slot: func(part int32) Slot { return p.seats[part] }, NotifyPeer: w.nudge, Lease: lease,
		Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	})
	ctx, stop := context.WithCancel(w.t.Context())
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.Run(ctx)
	}()
	return p
}

func (w *world) nudge(_ context.Context, to router.Peer) error {
	w.mu.Lock()
	other, lost := w.nodes[to.ID], !w.faultless && w.rng.IntN(10) == 0
	w.mu.Unlock()
	if lost || other == nil {
		return errAway
	}
	if err := other.pause(2 * time.Millisecond); err != nil {
		return err
	}
	other.Refresh()
	return nil
}

// kill ends a process at any point of its work.
func (p *process) kill() {
	p.mu.Lock()
	for _, s := range p.seats {
		s.note(time.Now())
		s.backend = nil
	}
	p.dead = true
	p.mu.Unlock()
	p.stop()
}

// end stops all nodes, and checks that no two nodes believed at the same time that they had the same
// partition.
func (w *world) end() {
	w.set(func() { w.faultless, w.unreachable = true, false })
	for _, p := range w.nodes {
		p.stop()
		<-p.ended
	}
	time.Sleep(time.Second)
	for part, of := range w.parts {
		slices.SortFunc(of.beliefs, func(a, b belief) int { return a.from.Compare(b.from) })
		for i := 1; i < len(of.beliefs); i++ {
			a, b := of.beliefs[i-1], of.beliefs[i]
			if a.node != b.node && a.to.After(b.from) {
				w.t.Errorf("seed %d: %s has partition %d until %v, %s from %v", w.seed, a.node, part, a.to.Format("05.000"), b.node, b.from.Format("05.000"))
			}
		}
	}
}
