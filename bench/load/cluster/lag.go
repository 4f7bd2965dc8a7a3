package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// lags has callers at the owner and at one other node make changes while all runs are followed at the
// third: how long after its stamp, which is put on before the commit by the one clock of this machine, a
// transition is there. What comes in warm counts nowhere; one that is missing is an error.
func (c *Cluster) lags(ctx context.Context, warm, window time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, warm+window+overdue)
	defer cancel()
	owner, others, err := c.splitByOwner(ctx)
	if err != nil {
		return nil, err
	}
	callers, err := c.callersOf(ctx, owner, others[0])
	if err != nil {
		return nil, err
	}
	last, err := c.caller(ctx, others[0])
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	stream, err := follow(ctx, others[1])
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	var busy sync.WaitGroup
	for _, one := range callers {
		busy.Add(1)
		group.Go(func() error {
			defer busy.Done()
			return one.emitUntil(ctx, begin.Add(warm+window))
		})
	}
	// The stream has one order: behind this there is nothing of the others.
	group.Go(func() error {
		busy.Wait()
		return last.emit(ctx)
	})
	seen, err := arrivals(stream, begin.Add(warm), last.run)
	if err = errorOf(group.Wait(), err); err != nil {
		return nil, err
	}
	for _, one := range callers {
		if seen.transitions[one.run] != one.calls {
			return nil, fmt.Errorf("run %s made %d transitions, %d were told at another node", one.run, one.calls, seen.transitions[one.run])
		}
	}
	if len(seen.lags) == 0 {
		return nil, errNoLags
	}
	return seen.lags, nil
}

// overdue is how long the last transition is waited for.
const overdue = 30 * time.Second

var errNoLags = errors.New("no transition was made in the window")

// callersOf are as many at each node.
func (c *Cluster) callersOf(ctx context.Context, nodes ...*node) (all []*caller, err error) {
	for _, n := range nodes {
		for range callersAt {
			one, err := c.caller(ctx, n)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// emitUntil makes one change at least.
func (c *caller) emitUntil(ctx context.Context, end time.Time) error {
	for {
		if err := c.emit(ctx); err != nil || !time.Now().Before(end) {
			return err
		}
	}
}

// follow reads all runs behind what there is.
func follow(ctx context.Context, at *node) (pawlv1.RunService_StreamTransitionsClient, error) {
	stream, err := pawlv1.NewRunServiceClient(at.conn).StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{FromNow: true, Follow: true})
	if err == nil {
		_, err = stream.Recv() // a heartbeat: it has its place
	}
	return stream, err
}

// observed is what a stream delivered.
type observed struct {
	// transitions are the transitions of each run.
	transitions map[string]int
	lags        []time.Duration
}

// arrivals reads until a run made a transition. What is stamped before from has no lag.
func arrivals(stream pawlv1.RunService_StreamTransitionsClient, from time.Time, last string) (observed, error) {
	seen := observed{transitions: map[string]int{}}
	for {
		got, err := stream.Recv()
		if err != nil {
			return seen, err
		}
		record := got.GetRecord()
		if record.GetTransition().GetEvent() != event {
			continue
		}
		if record.GetRunId() == last {
			return seen, nil
		}
		seen.transitions[record.GetRunId()]++
		if at := record.GetAt().AsTime(); !at.Before(from) {
			seen.lags = append(seen.lags, time.Since(at))
		}
	}
}
