package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/bench/load/many"
	"github.com/pawl-dev/pawl/bench/load/template"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// commitJob asks for transitions in process, without any wire.
type commitJob struct {
	// Kind is "naive", "bare" or "engine".
	Kind string `json:"kind"`
	Dir  string `json:"dir"`
	// Writers that each wait for their commit before they make the next.
	Writers int           `json:"writers"`
	Warm    time.Duration `json:"warm"`
	Window  time.Duration `json:"window"`
	Bytes   int           `json:"bytes"`
	// Place has the store of an engine instead of Dir.
	Place *many.Location `json:"place"`
}

// commitResult is what came of it.
type commitResult struct {
	loadResult
	// Keys is how many keys a transition sets where as many runs move as there are
	// writers: some are set once for many transitions.
	Keys float64 `json:"keys"`
}

// commitChild does one job.
func commitChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job commitJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		return runCommits(ctx, job)
	})
}

func runCommits(ctx context.Context, job commitJob) (commitResult, error) {
	if job.Kind == "engine" {
		load, err := engineCommits(ctx, job)
		return commitResult{loadResult: load}, err
	}
	t, keys, err := captureFor(ctx, filepath.Join(job.Dir, "capture"), job)
	if err != nil {
		return commitResult{}, err
	}
	load, err := templateCommits(ctx, job, t)
	return commitResult{loadResult: load, Keys: keys}, err
}

// captureFor is what one transition of an engine writes, and how many keys one of many does.
func captureFor(ctx context.Context, dir string, job commitJob) (t *template.Template, keys float64, err error) {
	l, err := openLocal(ctx, dir, localOptions{})
	if err != nil {
		return nil, 0, err
	}
	if t, err = l.capture(ctx, job.Bytes); err == nil {
		keys, err = l.keysPerTransition(ctx, job.Writers, job.Bytes)
	}
	return t, keys, errors.Join(err, l.close())
}

// templateCommits writes a template again and again under other identities.
func templateCommits(ctx context.Context, job commitJob, t *template.Template) (loadResult, error) {
	commit, closeStore, err := openCommitter(job)
	if err != nil {
		return loadResult{}, err
	}
	clients := make([]client, job.Writers)
	for i := range clients {
		clients[i] = &replayer{template: t, commit: commit, number: i}
	}
	result, err := drive(ctx, clients, job.Warm, job.Window, nil)
	return result, errors.Join(err, closeStore())
}

// openCommitter is the one thing in which naive and bare differ.
func openCommitter(job commitJob) (func(context.Context, []template.Pair) error, func() error, error) {
	dir := filepath.Join(job.Dir, "data")
	switch job.Kind {
	case "naive":
		db, err := badger.Open(naiveOptions(dir))
		if err != nil {
			return nil, nil, fmt.Errorf("naive: %w", err)
		}
		return naiveCommit(db), db.Close, nil
	case "bare":
		y, err := store.NewBareCommitter(store.Options{Dir: dir})
		if err != nil {
			return nil, nil, fmt.Errorf("bare: %w", err)
		}
		return bareCommit(y), y.Close, nil
	}
	return nil, nil, fmt.Errorf("kind %q; want naive, bare or engine", job.Kind)
}

// naiveOptions are those of the sidecar's own store, without its committer.
func naiveOptions(dir string) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(nil).
		WithSyncWrites(true).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithNumMemtables(2).
		WithMemTableSize(32 << 20).
		WithBlockCacheSize(32 << 20).
		WithIndexCacheSize(16 << 20).
		WithValueLogFileSize(64 << 20)
}

// naiveCommit makes one synced transaction per transition.
func naiveCommit(db *badger.DB) func(context.Context, []template.Pair) error {
	return func(_ context.Context, pairs []template.Pair) error {
		return db.Update(func(txn *badger.Txn) error {
			for _, p := range pairs {
				if err := txn.Set(p.Key, p.Value); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// bareCommit hands each transition to the committer.
func bareCommit(y *store.BareCommitter) func(context.Context, []template.Pair) error {
	return func(ctx context.Context, pairs []template.Pair) error {
		ops := make([]layout.Op, len(pairs))
		for i, p := range pairs {
			ops[i] = layout.Op{Key: p.Key, Value: p.Value}
		}
		return y.Commit(ctx, ops)
	}
}

// replayer commits the template as one run's next transition.
type replayer struct {
	template *template.Template
	commit   func(context.Context, []template.Pair) error
	number   int
	sent     int
}

func (r *replayer) once(ctx context.Context) error {
	r.sent++
	return r.commit(ctx, r.template.Fill(template.Identity{
		Run: replayedRun(r.number), ID: eventID(r.number, r.sent),
		First: uint64(r.sent) * r.template.Records(),
	}))
}

func (r *replayer) started() uint64 { return 0 }

// replayedRun is a run id of a ULID's length.
func replayedRun(number int) string { return fmt.Sprintf("01BENCH%019d", number) }

// engineCommits drives runs through the engine.
func engineCommits(ctx context.Context, job commitJob) (loadResult, error) {
	l, err := openLocal(ctx, filepath.Join(job.Dir, "data"), localOptions{place: job.Place})
	if err != nil {
		return loadResult{}, err
	}
	value := bytes.Repeat([]byte("v"), job.Bytes)
	clients := make([]client, job.Writers)
	for i := range clients {
		clients[i] = &engineClient{local: l, number: i, value: value}
	}
	result, err := drive(ctx, clients, job.Warm, job.Window, nil)
	return result, errors.Join(err, l.close())
}

// engineClient drives one run after the other in this process.
type engineClient struct {
	local  *local
	number int
	value  []byte
	run    *localRun
	sent   int
	runs   uint64
}

func (c *engineClient) once(ctx context.Context) (err error) {
	if c.sent%runTransitions == 0 {
		if c.run, err = c.local.start(ctx, packLoop); err != nil {
			return err
		}
		c.runs++
	}
	c.sent++
	return c.run.emit(ctx, eventID(c.number, c.sent), c.value)
}

func (c *engineClient) started() uint64 { return c.runs }
