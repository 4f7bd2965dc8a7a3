package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// snapshotJob asks for one long run, and for its past at random records.
type snapshotJob struct {
	Dir         string `json:"dir"`
	Transitions int    `json:"transitions"`
	// Value is what each transition appends, bytes.
	Value int `json:"value"`
	Reads int `json:"reads"`
}

// snapshotResult times the reads of one process.
type snapshotResult struct {
	// P50us is a snapshot without values, p50.
	P50us float64 `json:"p50_us"`
	// PerMiBus is what values add, for each MiB that is returned.
	PerMiBus float64 `json:"per_mib_us"`
}

// snapshotBytes is about what the run's one appended artifact holds at its end.
const snapshotBytes = 1 << 20

// snapshotPart measures what the past of a long run costs to read.
func (s *suite) snapshotPart(ctx context.Context) (Samples, error) {
	return interleave(min(s.sizes.Rounds, 2), []arm{{"snapshots", func(int) (map[string]float64, error) {
		var got snapshotResult
		err := s.inDirectory(ctx, "snapshot", func(c *child, dir string) error {
			return c.call(ctx, snapshotJob{
				Dir: dir, Transitions: s.sizes.LongHistory, Value: min(snapshotBytes/s.sizes.LongHistory-1, 16<<10), Reads: s.sizes.HistoryStep,
			}, &got)
		})
		return map[string]float64{"snapshot_p50_us": got.P50us, "snapshot_us_per_mib": got.PerMiBus}, err
	}}}, s.logRound)
}

// snapshots are the figures of snapshotPart.
func snapshots() []figure {
	return []figure{
		figureWithBar("snapshot_p50_us", "us", "a long run at any record, without values, p50", stat.AtMost(2000)),
		figureWithBar("snapshot_us_per_mib", "us/MiB", "values at any record, for each MiB returned", stat.AtMost(5000)),
	}
}

func snapshotChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job snapshotJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		return runSnapshots(ctx, job)
	})
}

func runSnapshots(ctx context.Context, job snapshotJob) (got snapshotResult, err error) {
	l, err := openLocal(ctx, filepath.Join(job.Dir, "data"), localOptions{limits: machine.Limits{MaxTransitions: job.Transitions + 2}})
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	run, err := l.start(ctx, packLog)
	if err != nil {
		return got, err
	}
	value := make([]byte, max(job.Value, 1))
	for n := range job.Transitions {
		if err := run.emit(ctx, eventID(0, n), value); err != nil {
			return got, err
		}
	}
	return l.timeSnapshots(ctx, run.id, job)
}

// timeSnapshots reads at random records, the same ones without values and with.
func (l *local) timeSnapshots(ctx context.Context, run string, job snapshotJob) (snapshotResult, error) {
	random := rand.New(rand.NewPCG(1, 2))
	durations, spent, mib := make([]float64, 0, job.Reads), 0.0, 0.0
	for range job.Reads {
		req := query.GetRunRequest{RunRef: runtime.RunRef{Call: call(), RunID: run}, AtSeq: 1 + random.Uint64N(uint64(job.Transitions))}
		took, _, err := l.timeSnapshot(ctx, req)
		if err != nil {
			return snapshotResult{}, err
		}
		durations = append(durations, took)
		req.Artifacts = true
		took, size, err := l.timeSnapshot(ctx, req)
		if err != nil {
			return snapshotResult{}, err
		}
		spent, mib = spent+took-durations[len(durations)-1], mib+float64(size)/(1<<20)
	}
	slices.Sort(durations)
	return snapshotResult{P50us: durations[len(durations)/2], PerMiBus: max(spent, 1) / max(mib, 1e-6)}, nil
}

func (l *local) timeSnapshot(ctx context.Context, req query.GetRunRequest) (us float64, size int, err error) {
	began := time.Now()
	view, err := l.engine.GetRun(ctx, req)
	took := time.Since(began)
	for _, a := range view.Artifacts {
		size += len(a.Value)
	}
	return float64(took.Nanoseconds()) / 1e3, size, err
}
