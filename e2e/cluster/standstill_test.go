package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/play"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// longest is what no node may be without an owner while it and the database are there; what
// they are is told.
const longest = 30 * time.Second

// standstills are how long calls through nodes stood still, by what was done to others.
type standstills struct {
	mu   sync.Mutex
	what string
	all  map[string][]time.Duration
	// worst is the longest since what was done last.
	worst time.Duration
}

// during says what is done from now on.
func (s *standstills) during(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	s.what, s.worst = what, 0
}

func (s *standstills) close() {
	if s.all == nil {
		s.all = map[string][]time.Duration{}
	}
	if s.what != "" {
		s.all[s.what] = append(s.all[s.what], s.worst)
	}
}

func (s *standstills) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worst = max(s.worst, d)
}

// judge tells them.
func (s *standstills) judge(t *testing.T) {
	t.Helper()
	s.during("")
	for _, what := range slices.Sorted(maps.Keys(s.all)) {
		all := slices.Sorted(slices.Values(s.all[what]))
		t.Logf("standstill at other nodes, %s: %d times, p50 %v, most %v", what, len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
		if most := all[len(all)-1]; most > longest {
			t.Errorf("%s: no owner for %v", what, most)
		}
	}
}

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
			l.c.waits.add(now.Sub(time.Unix(0, max(since, last.UnixNano()))))
		}
		last = now
		<-tick.C
	}
}
