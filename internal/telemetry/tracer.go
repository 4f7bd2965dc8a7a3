package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// Bounds of a [Tracer].
const (
	// maxPending bounds the records in memory for the exporter. Further records are read from the journal.
	maxPending = 1 << 16
	// maxFolds bounds the runs whose open spans (those that have begun but not ended) are in memory. The spans of
	// other runs are built again from the journal.
	maxFolds = 1 << 16
	// maxUpload bounds the spans of one request to the collector.
	maxUpload = 512
	// uploadTimeout bounds one request with its retries.
	uploadTimeout = 30 * time.Second
)

// Journal is the part of the store that a [Tracer] reads.
type Journal interface {
	Head(ctx context.Context, ns uint32, run string) (*machine.State, error)
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	Tail(ctx context.Context, ns uint32) (uint64, error)
}

// TracerConfig configures a [Tracer]. Journal and Endpoint are required.
type TracerConfig struct {
	Journal Journal
	// Endpoint is the URL of a collector that accepts OTLP over gRPC. With http:// the connection is not encrypted. Headers, certificates
	// and other options come from the standard environment variables OTEL_EXPORTER_OTLP_*.
	Endpoint string
	// Position is a file with the cursor up to which spans were exported. After a crash the next process continues there. "" = no file.
	Position string
	// Log receives the failures of the collector. By default they are discarded.
	Log *slog.Logger
	// Interval is the time between two exports. Default 1 s.
	Interval time.Duration
	// ShutdownTimeout bounds the export of the remaining spans when Run ends. Default 5 s.
	ShutdownTimeout time.Duration
	// Counts counts the spans by result. If it is nil, they are not counted.
	Counts *Metrics
}

// Tracer exports the spans of runs whose trace is sampled. It receives commits in memory and reads the commits
// that it missed from the journal, so it misses no commit that the journal still contains. Spans that the
// collector does not accept are lost. After a crash, only the default namespace is read again.
type Tracer struct {
	cfg    TracerConfig
	client otlptrace.Client
	// begin is the cursor up to which an earlier process has exported. end is the newest cursor of the journal
	// when this process began. Both are cursors of the default namespace, whose number is 0.
	begin, end uint64
	// runCalled reports whether [Tracer.Run] was called. Run closes the client.
	runCalled bool

	mu        sync.Mutex
	pending   map[runKey]*backlog
	heldSpans int

	// Only the loop uses the fields below.
	runStates   *cache.LRU[runKey, *trace.Fold]
	spans       []trace.Span
	mark        uint64
	unreachable bool
}

type runKey struct {
	ns  uint32
	run string
}

// backlog contains the commits of one run that were not exported yet.
type backlog struct {
	records []machine.Record
	// gap means that not all records of the run fitted into memory. The missing records must be read from the
	// journal.
	gap bool
}

// NewTracer returns a tracer. It sends no span before [Tracer.Run] is called.
func NewTracer(ctx context.Context, cfg TracerConfig) (*Tracer, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = 5 * time.Second
	}
	t := &Tracer{
		cfg: cfg, pending: make(map[runKey]*backlog), runStates: cache.New[runKey, *trace.Fold](maxFolds),
		client: otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(cfg.Endpoint)),
	}
	var err error
	if t.end, err = cfg.Journal.Tail(ctx, 0); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if t.begin, err = readPosition(cfg.Position, t.end); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.mark = t.end
	if err := t.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("telemetry: otlp_endpoint: %w", err)
	}
	return t, nil
}

// OnCommit implements [runtime.Observer]. It queues a commit of a run whose trace is sampled. It never waits
// for the collector or the store.
func (t *Tracer) OnCommit(c *runtime.Commit) {
	b := c.Batch
	if ctx, ok := trace.ContextOf(b.State); !ok || !ctx.Sampled {
		return
	}
	key := runKey{b.State.Namespace, b.State.RunID}
	t.mu.Lock()
	defer t.mu.Unlock()
	waits := t.pending[key]
	if waits == nil {
		waits = &backlog{}
		t.pending[key] = waits
	}
	if t.heldSpans+len(b.Records) > maxPending {
		waits.gap = true
		return
	}
	for i := range b.Records {
		waits.records = append(waits.records, trace.Slim(&b.Records[i]))
	}
	t.heldSpans += len(b.Records)
}

// Run exports spans until ctx ends. Then it exports the remaining spans, for at most TracerConfig.ShutdownTimeout.
func (t *Tracer) Run(ctx context.Context) error {
	t.runCalled = true
	t.report(t.resume(ctx))
	tick := time.NewTicker(t.cfg.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			t.flush(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.ShutdownTimeout)
	defer cancel()
	t.flush(last)
	// The second flush also stores the position up to which the first one has exported.
	t.flush(last)
	return errors.Join(t.client.Stop(last))
}

// Close closes a tracer for which Run was never called. After [Tracer.Run] it has no effect.
func (t *Tracer) Close(ctx context.Context) error {
	if t.runCalled {
		return nil
	}
	return t.client.Stop(ctx)
}

// resume exports the spans of commits in the default namespace that an earlier process may not have exported.
func (t *Tracer) resume(ctx context.Context) error {
	for after := t.begin; after < t.end; {
		entries, scanned, err := t.cfg.Journal.Journal(ctx, 0, after, machine.Page{Records: 256, Bytes: 1 << 20})
		if err != nil {
			return err
		}
		for i := range entries {
			if e := &entries[i]; e.Cursor <= t.end {
				t.follow(ctx, runKey{0, e.RunID}, e.Records)
			}
		}
		if len(entries) == 0 {
			return nil
		}
		after = max(scanned, entries[len(entries)-1].Cursor)
		t.upload(ctx)
	}
	return nil
}

// flush exports the spans of the commits since the last flush.
func (t *Tracer) flush(ctx context.Context) {
	tail, tailErr := t.cfg.Journal.Tail(ctx, 0)
	t.mu.Lock()
	pending := t.pending
	t.pending, t.heldSpans = make(map[runKey]*backlog), 0
	t.mu.Unlock()
	for key, waits := range pending {
		if waits.gap {
			waits.records = nil
		}
		t.follow(ctx, key, waits.records)
		if len(t.spans) >= maxUpload {
			t.upload(ctx)
		}
	}
	t.upload(ctx)
	// A commit is in the journal before the tracer receives it. So everything up to the end that the journal had at
	// the previous flush is exported now.
	t.report(writePosition(t.cfg.Position, t.mark))
	if tailErr == nil {
		t.mark = tail
	}
}

// follow builds and exports the spans of a run from further records. If the list is empty, it reads the records from
// the journal.
func (t *Tracer) follow(ctx context.Context, key runKey, records []machine.Record) {
	fold, err := t.runState(ctx, key, records)
	if err != nil || fold == nil {
		t.report(err)
		return
	}
	for i := range records {
		if records[i].Seq > fold.Seq()+1 {
			err = t.read(ctx, key, fold, records[i].Seq-1, true)
		}
		if err == nil && records[i].Seq == fold.Seq()+1 {
			t.spans = append(t.spans, fold.Take(&records[i])...)
		}
	}
	if len(records) == 0 {
		err = t.read(ctx, key, fold, 0, true)
	}
	t.report(err)
	if fold.Done() || err != nil {
		t.runStates.Remove(key)
	}
}

// runState returns the state of a run's spans (its Fold). If it is not in memory, runState builds it from the
// journal, up to the first of the given records. It returns nil if the run has no sampled trace.
func (t *Tracer) runState(ctx context.Context, key runKey, records []machine.Record) (*trace.Fold, error) {
	if fold, ok := t.runStates.Get(key); ok {
		return fold, nil
	}
	s, err := t.cfg.Journal.Head(ctx, key.ns, key.run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", key.run, err)
	}
	fold, ok := trace.NewFold(s)
	if !ok {
		return nil, nil
	}
	if len(records) > 0 && records[0].Seq > 1 {
		if err := t.read(ctx, key, fold, records[0].Seq-1, false); err != nil {
			return nil, err
		}
	}
	t.runStates.Put(key, fold, 1)
	return fold, nil
}

// read adds records from the journal to the Fold (the state of a run's spans): from the record after the Fold's
// last one up to the record number last, or all records if last is 0. If tell is false, the spans that end are
// dropped.
func (t *Tracer) read(ctx context.Context, key runKey, fold *trace.Fold, last uint64, tell bool) error {
	for {
		entries, err := t.cfg.Journal.Entries(ctx, key.ns, key.run, fold.Seq()+1, machine.Page{Records: 256, Bytes: 1 << 20})
		if err != nil {
			return fmt.Errorf("run %s: %w", key.run, err)
		}
		if len(entries) == 0 {
			return nil
		}
		for i := range entries {
			for j := range entries[i].Records {
				r := &entries[i].Records[j]
				if last > 0 && r.Seq > last || fold.Done() {
					return nil
				}
				if r.Seq != fold.Seq()+1 {
					continue
				}
				if ended := fold.Take(r); tell {
					t.spans = append(t.spans, ended...)
				}
			}
		}
	}
}

// upload sends the spans that have ended.
func (t *Tracer) upload(ctx context.Context) {
	for len(t.spans) > 0 {
		n := min(len(t.spans), maxUpload)
		ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
		err := t.client.UploadTraces(ctx, resourceSpans(t.spans[:n]))
		cancel()
		t.cfg.Counts.Spans(n, err == nil)
		t.logExportState(err)
		t.spans = t.spans[n:]
	}
	t.spans = nil
}

// logExportState logs once that the collector is not available, and once that it is available again.
func (t *Tracer) logExportState(err error) {
	switch {
	case err != nil && !t.unreachable:
		t.cfg.Log.Warn("trace export failed, retrying", "endpoint", t.cfg.Endpoint, "error", err)
	case err == nil && t.unreachable:
		t.cfg.Log.Info("trace export recovered", "endpoint", t.cfg.Endpoint)
	}
	t.unreachable = err != nil
}

func (t *Tracer) report(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		t.cfg.Log.Warn("trace export incomplete", "error", err)
	}
}
