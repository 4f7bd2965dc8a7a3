package cluster

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

const (
	// maxGap is what no partition may be without an owner, seen from a node that is there, while the
	// database commits.
	maxGap = 5 * time.Second
	// probeMemory is what is remembered of how long a probe took.
	probeMemory = 200 * time.Millisecond
)

// standstills are how long calls through nodes stood still, by what was done to others.
type standstills struct {
	commits *pgserver.Pulse

	mu  sync.Mutex
	all []*incident
}

// incident is a fault with the gaps between answers from when it began.
type incident struct {
	name      string
	startedAt time.Time
	// partitions are the partitions of the node that it happens to; nil: it happens to all.
	partitions map[int32]bool
	gaps       []gap
}

type gap struct {
	node     string
	part     int32
	from, to time.Time
}

// beginIncident says what is done from now on, and to which node.
func (s *standstills) beginIncident(what string, had map[int32]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, &incident{name: what, startedAt: time.Now(), partitions: had})
}

func (s *standstills) add(g gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) > 0 && g.to.Sub(g.from) > probeMemory {
		last := s.all[len(s.all)-1]
		last.gaps = append(last.gaps, g)
	}
}

// longestGap is the longest gap of a partition, and the longest of the time in which the database committed.
func (s *standstills) longestGap(i *incident, part int32) (total, own time.Duration, at gap) {
	for _, g := range i.gaps {
		if g.part != part {
			continue
		}
		d := g.to.Sub(g.from)
		total = max(total, d)
		if d -= s.commits.SilentTime(g.from, g.to); d > own {
			own, at = d, g
		}
	}
	return total, own, at
}

// effectOn says of a partition what an incident is to it.
func (i *incident) effectOn(part int32) string {
	switch {
	case i.partitions == nil:
		return i.name
	case i.partitions[part]:
		return i.name + " of its owner"
	}
	return i.name + " of another node"
}

// report tells them, and which were too long, with what the nodes said meanwhile.
func (s *standstills) report(t *testing.T, c *cluster) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	wholes, owns := map[string][]time.Duration{}, map[string][]time.Duration{}
	machine := s.machine(c.all())
	t.Logf("while nothing happened, or to workers alone, calls took up to %v: that is the machine's", machine)
	for _, i := range s.all {
		for _, part := range c.all() {
			total, own, at := s.longestGap(i, part)
			name := i.effectOn(part)
			wholes[name], owns[name] = append(wholes[name], total), append(owns[name], own)
			if own > bound()+machine {
				t.Errorf("%s, begun at %s: at node %s partition %d had no owner for %v while the database committed, from %s to %s",
					name, stamp(i.startedAt), at.node, part, own.Round(time.Millisecond), stamp(at.from), stamp(at.to))
				for _, n := range c.nodes {
					t.Logf("node %s said then:\n%s", n.name, n.saidIn(at.from.Add(-time.Second), at.to.Add(time.Second)))
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wholes)) {
		t.Logf("standstill of a partition, %s: %d times, p50 %s, most %s; while the database committed, p50 %s, most %s",
			name, len(wholes[name]), medianOf(wholes[name]), maxOf(wholes[name]), medianOf(owns[name]), maxOf(owns[name]))
	}
}

// bound is what is promised where faults are asked for, as make cluster does. A run beside others says only
// that nothing is stuck: how long two crowded cores take is no promise.
func bound() time.Duration {
	if short() {
		return 4 * maxGap
	}
	return maxGap
}

// short reports whether no faults were requested.
func short() bool { return os.Getenv("PAWL_FAULTS") == "" }

// machine is how long calls took at most while nothing happened that concerns who has a partition: as
// much of every other standstill is not of our making.
func (s *standstills) machine(parts []int32) (d time.Duration) {
	for _, i := range s.all {
		for _, part := range parts {
			if i.name == noFault || i.name == workerKilled {
				_, ours, _ := s.longestGap(i, part)
				d = max(d, ours)
			}
		}
	}
	return d.Round(time.Millisecond)
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func medianOf(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2].Round(time.Millisecond)
}

func maxOf(all []time.Duration) time.Duration { return slices.Max(all).Round(time.Millisecond) }

const (
	// probeInterval is the pause between two calls of a probe.
	probeInterval = 50 * time.Millisecond
	// perRun is how many transitions a probe makes in one run, fewer than its pack allows; then it begins the
	// next one. It is even: each ends where the next begins.
	perRun = 5000
	// noMore is what a probe has answered that makes no call any more.
	noMore = math.MaxInt64
)

// probe makes changes in a namespace through a node, one after the other, and tells how long it took
// from one to the next while the node was accountable.
type probe struct {
	*space
	at *node
	// answers counts them; noMore: there will be none.
	answers atomic.Int64
}

func (p *probe) run() {
	defer p.answers.Store(noMore)
	runs := pawlv1.NewRunServiceClient(namespaceConn{p.at.dial(), p.name})
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	id, last := "", time.Now()
	for i := 0; !p.ended.Load() && p.ctx.Err() == nil; i++ {
		if i%perRun == 0 {
			var begun bool
			if id, begun = p.begin(runs, i/perRun); !begun {
				return
			}
		}
		got, err := play.Retry(p.ctx, func(ctx context.Context) (*pawlv1.EmitEventResponse, error) {
			return runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: id, Event: "Next", EventId: fmt.Sprint("probe-", i)})
		})
		// A lost answer comes as that of the repeat: the state is what it was.
		if want := []string{"pong", "ping"}[i%2]; err != nil || got.GetState() != want {
			p.t.Errorf("probe %d of %s in %s: %v instead of %s, %v", i, p.at.name, p.name, got.GetState(), want, err)
			return
		}
		now := time.Now()
		if since := p.at.since.Load(); since != 0 {
			p.c.waits.add(gap{p.at.name, p.c.parts[p.name], time.Unix(0, max(since, last.UnixNano())), now})
		}
		last = now
		p.answers.Add(1)
		<-tick.C
	}
}

// begin starts a probe's next run.
func (p *probe) begin(runs pawlv1.RunServiceClient, n int) (run string, begun bool) {
	started, err := play.Retry(p.ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
		return runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "ping", RequestId: fmt.Sprint("probe-", p.at.name, n), Execution: pawlv1.Execution_EXECUTION_CALLER})
	})
	if err != nil {
		p.t.Errorf("probe of %s in %s: %v", p.at.name, p.name, err)
		return "", false
	}
	p.known(started.GetRun().GetRunId())
	return started.GetRun().GetRunId(), true
}

// answered waits until every probe has an answer to a call that it begins from now on: each partition
// is served at every node.
func (c *cluster) answered(ctx context.Context) {
	for _, p := range c.probes {
		if n := p.answers.Load(); n < noMore {
			play.AwaitCount(ctx, c.t, &p.answers, n+2)
		}
	}
}
