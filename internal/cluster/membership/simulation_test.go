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

// world is a database with the rows of a cluster, in memory, and all that its nodes believe.
type world struct {
	t    *testing.T
	seed uint64

	mu    sync.Mutex
	dice  *rand.Rand
	rows  map[string]*row
	order int
	// parts are the partitions; the first one is what tests with one look at.
	*share
	parts []*share
	// away: the database answers nobody. refuses: and says so at once.
	away, refuses bool
	// calm: nothing goes wrong by itself.
	calm  bool
	nodes map[string]*process
}

// share is a partition.
type share struct {
	owner string
	epoch uint64
	ends  time.Time
	// takes are those that had it, in their order.
	takes []string
	// believed is what nodes believed: that they have it from one moment to the other.
	believed []belief
}

type row struct {
	member Member
	since  int
	came   time.Time
	ends   time.Time
}

// told is the node as a view has it.
func (r *row) told() Member {
	m := r.member
	m.New = r.ends.Sub(r.came) < 2*lease
	return m
}

type belief struct {
	who      string
	from, to time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 7)), rows: map[string]*row{}, nodes: map[string]*process{}}
	w.divide(1)
	return w
}

// divide makes so many partitions, before there are nodes.
func (w *world) divide(parts int) {
	for len(w.parts) < parts {
		w.parts = append(w.parts, &share{})
	}
	w.share = w.parts[0]
}

func (w *world) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.IntN(n)
}

func (w *world) within(d time.Duration) time.Duration { return time.Duration(w.roll(int(d))) }

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// has is who has the first partition by the database; "": nobody.
func (w *world) has() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holder()
}

// holder is who has it; "": nobody.
func (s *share) holder() string {
	if s.ends.After(time.Now()) {
		return s.owner
	}
	return ""
}

var errAway = errors.New("the database is away")

// process is one that runs a node.
type process struct {
	*Node
	world *world
	id    string
	ended chan struct{}
	stop  context.CancelFunc
	log   journal

	mu sync.Mutex
	// dead: nothing of it happens any more. stopped: nothing does until then. cut: the database does
	// not hear it.
	dead, cut bool
	stopped   time.Time
	epochs    []uint64
	beats     int
	// broken: it opens nothing; tries is how often it began to.
	broken bool
	tries  int
	key    [32]byte
	// seats are by partition, seat is the first one.
	seats []*seat
	seat  *seat
}

var errDead = errors.New("the process is dead")

// nap is how long something takes, in a process that may be stopped.
func (p *process) nap(most time.Duration) error {
	time.Sleep(p.world.within(most))
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

// speak is a statement: there, and back.
func (p *process) speak(act func()) error {
	if err := p.nap(3 * time.Millisecond); err != nil {
		return err
	}
	lost := p.world.roll(100)
	p.world.mu.Lock()
	p.mu.Lock()
	away := p.cut
	p.mu.Unlock()
	away, refuses := away || p.world.away || !p.world.calm && lost < 2, p.world.refuses
	if !away || lost == 0 {
		act()
	}
	p.world.mu.Unlock()
	if err := p.nap(3 * time.Millisecond); err != nil {
		return err
	}
	if away {
		if !refuses {
			time.Sleep(p.world.within(time.Second))
		}
		return errAway
	}
	return nil
}

// Beat is as in SQL.
func (p *process) Heartbeat(_ context.Context, me Member) (v View, err error) {
	w := p.world
	p.mu.Lock()
	epochs := slices.Clone(p.epochs)
	p.beats++
	p.mu.Unlock()
	err = p.speak(func() {
		now := time.Now()
		r := w.rows[p.id]
		if r == nil {
			w.order++
			r = &row{since: w.order, came: now}
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
				v.Nodes = append(v.Nodes, other.told())
			}
		}
		slices.SortFunc(v.Nodes, func(a, b Member) int { return w.rows[a.ID].since - w.rows[b.ID].since })
		for i, s := range w.parts {
			part := Partition{ID: int32(i)}
			if owner := s.holder(); owner != "" {
				part.Owner, part.Lease = Member{ID: owner, Address: "strange"}, s.ends.Sub(now)
				if r := w.rows[owner]; r != nil {
					part.Owner = r.told()
				}
			}
			v.Parts = append(v.Parts, part)
		}
	})
	return v, err
}

// Leave takes the row away.
func (p *process) Deregister(context.Context, Member) error {
	return p.speak(func() { delete(p.world.rows, p.id) })
}

var errHeld = errors.New("another one has it")

// take opens the store, which takes a while in which it has it already.
func (p *process) take(ctx context.Context, part int32) (OpenPartition, error) {
	w, epoch := p.world, uint64(0)
	err := p.speak(func() {
		s := w.parts[part]
		if s.holder() != "" {
			return
		}
		s.epoch++
		epoch = s.epoch
		s.owner, s.ends = p.id, time.Now().Add(lease)
		s.takes = append(s.takes, p.id)
	})
	if err == nil && epoch == 0 {
		err = errHeld
	}
	if err != nil {
		return nil, err
	}
	p.believe(part, epoch)
	how := 50 * time.Millisecond
	if !w.isCalm() && w.roll(4) == 0 {
		how = 2 * lease
	}
	if err := p.nap(how); err != nil {
		return nil, err
	}
	s := &store{process: p, part: part, epoch: epoch, failed: make(chan struct{}), closed: make(chan struct{})}
	p.mu.Lock()
	broken := p.broken
	p.tries++
	p.mu.Unlock()
	if broken || ctx.Err() != nil || !w.isCalm() && w.roll(6) == 0 {
		return nil, errors.Join(errors.New("it does not open"), s.Close(ctx))
	}
	return s, nil
}

// believe is the epoch under which beats renew a lease.
func (p *process) believe(part int32, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epochs[part] = epoch
}

// store is a tenure.
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
		s.process.believe(s.part, 0)
		close(s.failed)
	})
}

func (s *store) Close(context.Context) error {
	p := s.process
	of := p.world.parts[s.part]
	p.believe(s.part, 0)
	err := p.speak(func() {
		if of.owner == p.id && of.epoch == s.epoch {
			of.owner, of.ends = "", time.Time{}
		}
	})
	close(s.closed)
	return err
}

// seat writes down when calls would have entered.
type seat struct {
	process *process
	of      *share
	home    router.Backend
	until   time.Time
	from    time.Time
}

func (s *seat) Attach(t router.Backend) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	if s.home != nil {
		s.process.world.t.Errorf("seed %d: %s has two tenures", s.process.world.seed, s.process.id)
	}
	s.home, s.from = t, time.Now()
}

func (s *seat) ExtendLease(until time.Time) {
	w := s.process.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.of.owner == s.process.id && until.Add(margin).After(s.of.ends) {
		w.t.Errorf("seed %d: %s has the store until %v, the lease ends %v", w.seed, s.process.id, until.Format("05.000"), s.of.ends.Format("05.000"))
	}
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	if now := time.Now(); s.home != nil && s.until.Before(now) {
		s.note(now)
		s.from = now
	}
	s.until = until
}

func (s *seat) Detach(context.Context) (router.Backend, error) {
	s.process.mu.Lock()
	s.note(time.Now())
	s.home = nil
	s.process.mu.Unlock()
	return nil, s.process.nap(20 * time.Millisecond)
}

// note writes down what was believed up to a moment. It is called under mu of the process.
func (s *seat) note(to time.Time) {
	if s.home == nil {
		return
	}
	b := belief{who: s.process.id, from: s.from, to: to}
	if s.until.Before(to) {
		b.to = s.until
	}
	if b.to.After(b.from) {
		go s.process.world.set(func() { s.of.believed = append(s.of.believed, b) })
	}
}

// has says whether calls enter the first partition.
func (p *process) has() bool { return p.hasPart(0) }

func (p *process) hasPart(part int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seats[part]
	return s.home != nil && time.Now().Before(s.until) && !p.dead
}

// journal is what a node logs.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// count is how often something was said.
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
		p.seats = append(p.seats, &seat{process: p, of: of})
	}
	p.seat, p.epochs = p.seats[0], make([]uint64, len(w.parts))
	p.Node = New(Config{
		Me: Member{ID: id, Address: id + ":1", Key: p.key, Parts: 1<<len(w.parts) - 1}, Registry: p, Open: p.take,
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
	other, lost := w.nodes[to.ID], !w.calm && w.dice.IntN(10) == 0
	w.mu.Unlock()
	if lost || other == nil {
		return errAway
	}
	if err := other.nap(2 * time.Millisecond); err != nil {
		return err
	}
	other.Refresh()
	return nil
}

// kill ends a process in the middle of whatever it does.
func (p *process) kill() {
	p.mu.Lock()
	for _, s := range p.seats {
		s.note(time.Now())
		s.home = nil
	}
	p.dead = true
	p.mu.Unlock()
	p.stop()
}

// end stops all, and looks at what was believed.
func (w *world) end() {
	w.set(func() { w.calm, w.away = true, false })
	for _, p := range w.nodes {
		p.stop()
		<-p.ended
	}
	time.Sleep(time.Second)
	for part, of := range w.parts {
		slices.SortFunc(of.believed, func(a, b belief) int { return a.from.Compare(b.from) })
		for i := 1; i < len(of.believed); i++ {
			a, b := of.believed[i-1], of.believed[i]
			if a.who != b.who && a.to.After(b.from) {
				w.t.Errorf("seed %d: %s has partition %d until %v, %s from %v", w.seed, a.who, part, a.to.Format("05.000"), b.who, b.from.Format("05.000"))
			}
		}
	}
}
