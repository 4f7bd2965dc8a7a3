package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/bench/load/stat"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// flatJob asks how much longer a transition takes late in a run than early.
type flatJob struct {
	Dir   string `json:"dir"`
	Sizes Sizes  `json:"sizes"`
}

// flatResult holds, per round, the p50 of both.
type flatResult struct {
	ShortHistoryUs []float64 `json:"early_us"`
	LongHistoryUs  []float64 `json:"late_us"`
}

// appendedValueBytes is what each transition of those runs appends.
const appendedValueBytes = 64

func flatChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job flatJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		return runFlat(ctx, job)
	})
}

func runFlat(ctx context.Context, job flatJob) (flatResult, error) {
	l, err := openLocal(ctx, filepath.Join(job.Dir, "data"), localOptions{limits: machine.Limits{
		MaxTransitions:      job.Sizes.maxTransitions(),
		MaxRunArtifactBytes: job.Sizes.LongRunBytes,
	}})
	if err != nil {
		return flatResult{}, err
	}
	result, err := l.flat(ctx, job.Sizes)
	return result, errors.Join(err, l.close())
}

func (l *local) flat(ctx context.Context, sizes Sizes) (flatResult, error) {
	var result flatResult
	late, err := l.appender(ctx, 0)
	if err != nil {
		return result, err
	}
	if err := late.emit(ctx, sizes.LongHistory, nil); err != nil {
		return result, err
	}
	for round := range sizes.Rounds {
		early, err := l.appender(ctx, round+1)
		if err != nil {
			return result, err
		}
		if err := early.emit(ctx, sizes.ShortHistory, nil); err != nil {
			return result, err
		}
		earlyTimes, lateTimes, err := alternate(ctx, early, late, sizes.HistoryStep)
		if err != nil {
			return result, err
		}
		result.ShortHistoryUs = append(result.ShortHistoryUs, micros(stat.Quantile(earlyTimes, 0.5)))
		result.LongHistoryUs = append(result.LongHistoryUs, micros(stat.Quantile(lateTimes, 0.5)))
	}
	return result, nil
}

// alternate measures the times of n transitions of each run, in turn, so that the state of the disk affects both.
func alternate(ctx context.Context, early, late *appender, n int) (earlyTimes, lateTimes []time.Duration, err error) {
	for range n {
		if err := early.emit(ctx, 1, &earlyTimes); err != nil {
			return nil, nil, err
		}
		if err := late.emit(ctx, 1, &lateTimes); err != nil {
			return nil, nil, err
		}
	}
	return earlyTimes, lateTimes, nil
}

// appender is a run of packLog, one transition at a time.
type appender struct {
	run    *localRun
	number int
	sent   int
	value  []byte
}

func (l *local) appender(ctx context.Context, number int) (*appender, error) {
	run, err := l.start(ctx, packLog)
	return &appender{run: run, number: number, value: bytes.Repeat([]byte("v"), appendedValueBytes)}, err
}

// emit makes n transitions and appends the time of each to times unless nil.
func (a *appender) emit(ctx context.Context, n int, times *[]time.Duration) error {
	for range n {
		begin := time.Now()
		if err := a.run.emit(ctx, eventID(a.number, a.sent), a.value); err != nil {
			return err
		}
		a.sent++
		if times != nil {
			*times = append(*times, time.Since(begin))
		}
	}
	return nil
}

// flatPart runs all rounds in one process: a run of a long history is made once.
func (s *suite) flatPart(ctx context.Context) (Samples, error) {
	s.logf("a run of %d transitions", s.sizes.LongHistory)
	var result flatResult
	err := s.inDirectory(ctx, "flat", func(c *child, dir string) error {
		return c.call(ctx, flatJob{Dir: dir, Sizes: s.sizes}, &result)
	})
	raw := Samples{"early": result.ShortHistoryUs, "late": result.LongHistoryUs}
	return Samples{"flat_ratio": raw.ratio("late", "early")}, err
}
