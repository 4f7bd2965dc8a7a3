package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"context"
	"encoding/json"
	"fmt"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// What tells seeded runs apart where they are to be listed: half of them stand in
// another state, one of rareEvery waits, and there are teams teams.
const (
	rareEvery = 500
	teams     = 10
	teamLabel = "team"
	// stateOften and stateRare are states of packLoop and packDeadline.
	stateOften, stateRare = "review", "wait"
)

// seedVaried starts one of the runs that are listed.
func (l *local) seedVaried(ctx context.Context, n int) error {
	pack := packLoop
	if n%rareEvery == 0 {
		pack = packDeadline
	}
	answer, err := l.engine.StartRun(ctx, runtime.StartRequest{
		Call: call(), Pack: pack, Execution: machine.Caller,
		Labels: []machine.Label{{Key: teamLabel, Value: team(n)}},
	})
	if err != nil || pack != packLoop || n%2 == 0 {
		return err
	}
	run := &localRun{engine: l.engine, id: answer.RunID, token: tokenOf(answer)}
	return run.emit(ctx, eventID(0, n), []byte("x"))
}

func team(n int) string { return fmt.Sprintf("t-%d", n%teams) }

// listsPart lists, counts and filters many runs.
func (s *suite) listsPart(ctx context.Context) (Samples, error) {
	dir, cleanup, err := tempDir(s.root, "lists")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	if err := s.seed(ctx, dir, seedJob{Runs: s.sizes.ListedRuns, Varied: true}); err != nil {
		return nil, err
	}
	up, err := s.timedStart(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer up.server.kill()
	return interleave(min(s.sizes.Rounds, 3), []arm{{"lists of runs", func(int) (map[string]float64, error) {
		got, err := s.lists(ctx, listsJob{Target: up.target, Calls: s.sizes.HistoryStep})
		return map[string]float64{"list_p99_ms": got.P99us / 1e3}, err
	}}}, s.logRound)
}

func (s *suite) lists(ctx context.Context, job listsJob) (loadResult, error) {
	c, err := s.start(ctx, "lists")
	if err != nil {
		return loadResult{}, err
	}
	defer c.stop()
	var got loadResult
	err = c.call(ctx, job, &got)
	return got, err
}

// lists are the figures of listsPart.
func lists() []figure {
	return []figure{figureWithBar("list_p99_ms", "ms", "many runs listed, counted, filtered by state and label, p99", stat.AtMost(50))}
}

// listsJob asks for so many calls of each kind.
type listsJob struct {
	Target string `json:"target"`
	Calls  int    `json:"calls"`
}

func listsChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job listsJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		conns, closeAll, err := dial(job.Target, 1)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		l := &lister{rpc: pawlv1.NewRunServiceClient(conns[0]), pages: make([]string, len(queries()))}
		for n := range job.Calls {
			if err := l.round(ctx, n); err != nil {
				return nil, err
			}
		}
		return loadResult{Count: l.latencies.Count(), P50us: micros(l.latencies.Quantile(0.5)), P99us: micros(l.latencies.Quantile(0.99))}, nil
	})
}

// lister makes one call of each kind after the other; every list goes on where its
// last page ended.
type lister struct {
	rpc       pawlv1.RunServiceClient
	pages     []string
	latencies stat.Histogram
}

// queries are the lists, each by one filter.
func queries() []*pawlv1.ListRunsRequest {
	labels := map[string]string{teamLabel: team(1)}
	return []*pawlv1.ListRunsRequest{
		{},
		{Filter: &pawlv1.RunFilter{Statuses: []pawlv1.RunStatus{pawlv1.RunStatus_RUN_STATUS_RUNNING}}},
		{Filter: &pawlv1.RunFilter{State: stateOften}},
		{Filter: &pawlv1.RunFilter{State: stateRare}},
		{Filter: &pawlv1.RunFilter{Labels: labels}},
		{Filter: &pawlv1.RunFilter{Labels: labels, State: stateOften}},
	}
}

func (l *lister) round(ctx context.Context, n int) error {
	for i, query := range queries() {
		if n%2 == 1 {
			query.PageToken = l.pages[i]
		}
		began := time.Now()
		page, err := l.rpc.ListRuns(ctx, query)
		if err != nil {
			return fmt.Errorf("list %v: %w", query, err)
		}
		l.latencies.Add(time.Since(began))
		l.pages[i] = page.GetNextPageToken()
	}
	began := time.Now()
	if _, err := l.rpc.CountRuns(ctx, &pawlv1.CountRunsRequest{}); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	l.latencies.Add(time.Since(began))
	return nil
}
