package bench

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/bench/dialogue"
)

// A turn of modelRounds calls of a model, whose conversation grows to 840 KB.
const (
	modelTurns  = 10
	modelRounds = 100
	modelBytes  = 4200
)

func models() []figure {
	return []figure{
		plain("model_step_p50_us", "us", "a call of a model, request and answer, p50"),
		compared("model_flat_ratio", "round 100 of a turn against round 2", atMost(1.15), quotient("model_late_us", "model_early_us")),
		barred("model_bytes_ratio", "x", "bytes stored of a turn of 100 rounds, against those that were new", atMost(2.4)),
	}
}

// modelsPart speaks turns that nobody answers but the bench.
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
	s.tell("%d turns of %d calls of a model, %d B new in each", modelTurns, modelRounds, 2*modelBytes)
	var got dialogue.Result
	if err := speaker.call(ctx, up.target, &got); err != nil {
		return nil, err
	}
	return Samples{
		"model_step_p50_us": {got.P50us}, "model_early_us": got.EarlyUs, "model_late_us": got.LateUs,
		"model_bytes_ratio": {float64(got.Stored) / float64(got.Said)},
	}, nil
}

// speakChild speaks the turns at an address.
func speakChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.each(ctx, func(raw json.RawMessage) (any, error) {
		var target string
		if err := json.Unmarshal(raw, &target); err != nil {
			return nil, fmt.Errorf("speak: %w", err)
		}
		conns, closeAll, err := dial(target, 1)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		return dialogue.Run(ctx, conns[0], dialogue.Job{Pack: packLoop, Turns: modelTurns, Rounds: modelRounds, Bytes: modelBytes})
	})
}
