package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/play"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/testkit/pg"
)

const (
	// longest is what no node may be without an owner while it is there and the database commits.
	longest = 5 * time.Second
	// noticed is what is remembered of how long a probe took.
	noticed = 200 * time.Millisecond
)

// standstills are how long calls through nodes stood still, by what was done to others.
type standstills struct {
	pulse *pg.Pulse

	mu  sync.Mutex
	all []*incident
}

// incident is a fault with the gaps between answers from when it began.
type incident struct {
	what  string
	began time.Time
	gaps  []gap
}

type gap struct {
	node     string
	from, to time.Time
}

// during says what is done from now on.
func (s *standstills) during(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, &incident{what: what, began: time.Now()})
}

func (s *standstills) add(g gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) > 0 && g.to.Sub(g.from) > noticed {
		last := s.all[len(s.all)-1]
		last.gaps = append(last.gaps, g)
	}
}

// worst is the longest gap, and the longest of the time in which the database committed.
func (s *standstills) worst(i *incident) (whole, ours time.Duration, at gap) {
	for _, g := range i.gaps {
		d := g.to.Sub(g.from)
		whole = max(whole, d)
		if d -= s.pulse.Silent(g.from, g.to); d > ours {
			ours, at = d, g
		}
	}
	return whole, ours, at
}

// judge tells them, and which were too long, with what the nodes said meanwhile.
func (s *standstills) judge(t *testing.T, nodes []*node) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	wholes, owns := map[string][]time.Duration{}, map[string][]time.Duration{}
	machine := s.machine()
	t.Logf("while workers alone were killed, calls took up to %v: that is the machine's", machine)
	for _, i := range s.all {
		whole, ours, at := s.worst(i)
		wholes[i.what], owns[i.what] = append(wholes[i.what], whole), append(owns[i.what], ours)
		if ours > longest+machine {
			t.Errorf("%s, begun at %s: at node %s there was no owner for %v while the database committed, from %s to %s",
				i.what, stamp(i.began), at.node, ours.Round(time.Millisecond), stamp(at.from), stamp(at.to))
			for _, n := range nodes {
				t.Logf("node %s said then:\n%s", n.name, n.saidIn(at.from.Add(-time.Second), at.to.Add(time.Second)))
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(wholes)) {
		t.Logf("standstill at other nodes, %s: %d times, p50 %s, most %s; while the database committed, p50 %s, most %s",
			what, len(wholes[what]), middle(wholes[what]), most(wholes[what]), middle(owns[what]), most(owns[what]))
	}
}

// machine is how long calls took at most while nothing happened that concerns who has the store:
// as much of every other standstill is not of our making.
func (s *standstills) machine() (d time.Duration) {
	for _, i := range s.all {
		if strings.HasPrefix(i.what, workerKilled) {
			_, ours, _ := s.worst(i)
			d = max(d, ours)
		}
	}
	return d.Round(time.Millisecond)
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func middle(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2].Round(time.Millisecond)
}

func most(all []time.Duration) time.Duration { return slices.Max(all).Round(time.Millisecond) }

// probe makes changes through a node, one after the other, and tells how long it took from one
// to the next while the node was accountable.
func (l *load) probe(n *node) {
	runs := pawlv1.NewRunServiceClient(n.dial())
	started, err := play.Retry(l.ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
		return runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "ping", RequestId: "probe-" + n.name, Execution: pawlv1.Execution_EXECUTION_CALLER})
	})
	if err != nil {
		l.t.Errorf("probe of %s: %v", n.name, err)
		return
	}
	id := started.GetRun().GetRunId()
	l.known(id)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for i := 0; !l.over.Load() && l.ctx.Err() == nil; i++ {
		got, err := play.Retry(l.ctx, func(ctx context.Context) (*pawlv1.EmitEventResponse, error) {
			return runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: id, Event: "Next", EventId: fmt.Sprint("probe-", i)})
		})
		// A lost answer comes as that of the repeat: the state is what it was.
		if want := []string{"pong", "ping"}[i%2]; err != nil || got.GetState() != want {
			l.t.Errorf("probe %d of %s: %v instead of %s, %v", i, n.name, got.GetState(), want, err)
			return
		}
		now := time.Now()
		if since := n.since.Load(); since != 0 {
			l.c.waits.add(gap{n.name, time.Unix(0, max(since, last.UnixNano())), now})
		}
		last = now
		<-tick.C
	}
}
