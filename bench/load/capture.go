package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/bench/load/template"
)

// capturedAt is which transition of a run is taken as the template: the run is
// in its loop, and no head, checkpoint or first write of an artifact is in it. What an
// engine writes besides, now and then and per group, the yardsticks are spared.
const capturedAt = 3

// capture runs a few transitions of packLoop on a store in dir and returns what
// the last one wrote.
func capture(ctx context.Context, dir string, valueBytes int) (*template.Template, error) {
	l, err := openLocal(ctx, dir, localOptions{})
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	t, err := l.capture(ctx, valueBytes)
	if err := errors.Join(err, l.close()); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	return t, nil
}

func (l *local) capture(ctx context.Context, valueBytes int) (*template.Template, error) {
	r, err := l.start(ctx, packLoop)
	if err != nil {
		return nil, err
	}
	value := bytes.Repeat([]byte("v"), valueBytes)
	l.store.keep = true
	defer func() { l.store.keep = false }()
	for n := range capturedAt {
		if err := r.emit(ctx, eventID(0, n), value); err != nil {
			return nil, err
		}
	}
	pairs := make([]template.Pair, 0, len(l.store.ops))
	for _, op := range l.store.ops {
		if op.Delete {
			return nil, fmt.Errorf("the captured transition deletes key %q", op.Key)
		}
		pairs = append(pairs, template.Pair{Key: op.Key, Value: op.Value})
	}
	of := template.Identity{Run: r.id, ID: eventID(0, capturedAt-1), First: l.store.prev + 1}
	return template.New(pairs, of, l.store.records)
}

// keysPerTransition counts the keys that transitions with one artifact set, everything
// included that is set once for many, where so many runs move at once.
func (l *local) keysPerTransition(ctx context.Context, runs, valueBytes int) (float64, error) {
	const rounds = 32
	value := bytes.Repeat([]byte("v"), valueBytes)
	all := make([]*localRun, runs)
	for i := range all {
		var err error
		if all[i], err = l.start(ctx, packLoop); err != nil {
			return 0, err
		}
	}
	before := l.store.Stats()
	moved := make(chan error, runs)
	for i, r := range all {
		go func() {
			var err error
			for n := 0; n < rounds && err == nil; n++ {
				err = r.emit(ctx, eventID(i, n), value)
			}
			moved <- err
		}()
	}
	var err error
	for range all {
		err = errors.Join(err, <-moved)
	}
	return float64(l.store.Stats().Keys-before.Keys) / float64(rounds*runs), err
}
