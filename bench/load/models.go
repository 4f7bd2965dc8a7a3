package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/bench/load/dialogue"
)

// Turns of modelRounds calls of a model, whose conversation grows to 840 KB. Late rounds are
// compared with early ones in samples, each over Sizes.ModelPairs pairs of turns.
const (
	modelSamples = 5
	modelRounds  = 100
	modelBytes   = 4200
)

func models() []figure {
	return []figure{
		plainFigure("model_step_p50_us", "us", "a call of a model, request and answer, p50"),
		figureWithBar("model_flat_ratio", "x", "rounds 91 to 100 of a turn against 2 to 11, p50", stat.AtMost(1.15)),
		figureWithBar("model_bytes_ratio", "x", "bytes stored of a turn of 100 rounds, against those that were new", stat.AtMost(2.4)),
		figureWithBar("stop_abort_p99_ms", "ms", "StopRun to the abort signal of the worker that has the turn, p99", stat.AtMost(50)),
	}
}

// modelsPart measures turns whose model calls the benchmark itself answers.
func (s *suite) modelsPart(ctx context.Context) (Samples, error) {
	dir, cleanup, err := tempDir(s.root, "models")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	up, err := s.timedStart(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer up.server.stop()
	speaker, err := s.start(ctx, "speak")
	if err != nil {
		return nil, err
	}
	defer speaker.stop()
	s.logf("turns of %d calls of a model, %d B new in each, %d samples of %d pairs", modelRounds, 2*modelBytes, modelSamples, s.sizes.ModelPairs)
	var got dialogue.Result
	if err := speaker.call(ctx, speechJob{up.target, s.sizes.ModelPairs}, &got); err != nil {
		return nil, err
	}
	return Samples{
		"model_step_p50_us": {got.P50us}, "model_flat_ratio": got.Ratios,
		"model_bytes_ratio": {float64(got.Stored) / float64(got.NewBytes)}, "stop_abort_p99_ms": {got.StopP99ms},
	}, nil
}

// speechJob is the order to a child process that speaks.
type speechJob struct {
	Target string
	Pairs  int
}

// turnsChild speaks the turns at an address.
func turnsChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job speechJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("speak: %w", err)
		}
		conns, closeAll, err := dial(job.Target, 1)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		return dialogue.Run(ctx, conns[0], dialogue.Job{Pack: packLoop, Rounds: modelRounds, Bytes: modelBytes, Samples: modelSamples, Pairs: job.Pairs, Stops: 5 * modelRounds})
	})
}
