package streams

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Defaults of [Config].
const (
	DefaultTailBytes = 16 << 20
	DefaultBytes     = 64 << 20
	DefaultHeartbeat = 15 * time.Second
)

// Engine is the part of the runtime engine that a [Service] uses.
type Engine interface {
	// Admit checks that the caller has one of the scopes, and returns the number of the namespace of the call.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// FindReadable returns the key of a run that the caller may read.
	FindReadable(ref runtime.RunRef) (runtime.RunKey, error)
	// Head returns the newest state of a run. It is never older than a record that the store has returned. Error: RUN_NOT_FOUND.
	Head(ctx context.Context, key runtime.RunKey) (*machine.State, error)
	// NamespaceNumbers returns the numbers of the configured namespaces. NamespaceName returns the name of a namespace
	// by its number.
	NamespaceNumbers() []uint32
	NamespaceName(number uint32) string
}

// Store is the part of the store that a [Service] uses, besides what [history.Reader] uses.
type Store interface {
	// Entries returns a run's entries that contain records with seq >= from, in order.
	Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error)
	// Entry returns the entry of a run that contains the record seq. Error: [machine.ErrNoRecord].
	Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error)
	// Journal returns entries of all runs of a namespace, in cursor order, beginning after the cursor `after`. It also
	// returns the cursor up to which it has read.
	Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error)
	// Tail returns the cursor of the newest entry of a namespace. Epoch returns the permanent identifier of the store.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Epoch() [16]byte
}

// Readers stores the consumers of a namespace, which are named readers of records, and their positions.
type Readers interface {
	// Resume returns the position of a consumer. known reports whether the consumer exists.
	Resume(ctx context.Context, ns uint32, name, owner string) (at runtime.Cursor, known bool, err error)
	// Enter makes a watch the current watch of its consumer, and ends the earlier one. If the consumer is not known,
	// Enter stores it.
	Enter(ctx context.Context, ns uint32, name, owner string, at runtime.Cursor, known bool) (ConsumerWatch, error)
}

// ConsumerWatch is the current watch of a consumer. A consumer has one watch at a time.
type ConsumerWatch interface {
	// Ended returns a channel that is closed when the watch must end. EndReason then returns the reason.
	Ended() <-chan struct{}
	EndReason() error
	// Close notes that the watch has ended.
	Close()
}

// Live provides progress of turns that is not a record and exists only in the memory of this process. A watch of a run
// can include it.
type Live interface {
	// Output returns the next piece of the output of a run's turn after a position. It returns false if there is none
	// yet.
	Output(key runtime.RunKey, after runtime.OutputPosition) (runtime.OutputChunk, bool)
	// AssignedTurn returns the seq of a run's turn that an executor has received and that is not known to have ended. 0
	// means that there is none.
	AssignedTurn(key runtime.RunKey) uint64
}

// Config configures a [Service]. Live is optional. A number that is 0 selects the default. All other fields are
// required.
type Config struct {
	Engine   Engine
	Store    Store
	Past     *history.Reader
	Programs *packcache.Cache
	Readers  Readers
	Clock    runtime.Clock
	// Live adds turn output and assignments of turns to watches. If it is nil, watches contain only records.
	Live Live
	// TailBytes bounds the memory for recent entries of each namespace that a watch follows, in bytes. Default 16 MiB.
	TailBytes int64
	// Bytes bounds the memory for pages that all watches together have read but not yet delivered, in bytes. In
	// addition, each watch may keep one entry. Default 64 MiB.
	Bytes int64
	// Heartbeat is the longest time between two pages of a watch. Default 15 s.
	Heartbeat time.Duration
}

// Service offers watches, waits and lists of records. It observes commits ([Service.OnCommit]). A commit never waits
// for a watch: a slow watch reads the missed entries from the store. The server must call [Service.End] after the
// engine has drained. Safe for concurrent use.
type Service struct {
	cfg   Config
	hub   *hub
	pages *pages
}

// New returns a Service. It returns one error with all faults of the configuration, and starts no goroutine.
func New(cfg Config) (*Service, error) {
	var faults []error
	if cfg.Engine == nil || cfg.Store == nil || cfg.Past == nil || cfg.Programs == nil || cfg.Readers == nil || cfg.Clock == nil {
		faults = append(faults, errors.New("all but Live is required"))
	}
	for _, bound := range []struct {
		name   string
		n, def int64
		to     func(int64)
	}{
		{"TailBytes", cfg.TailBytes, DefaultTailBytes, func(n int64) { cfg.TailBytes = n }},
		{"WatchBytes", cfg.Bytes, DefaultBytes, func(n int64) { cfg.Bytes = n }},
		{"Heartbeat", int64(cfg.Heartbeat), int64(DefaultHeartbeat), func(n int64) { cfg.Heartbeat = time.Duration(n) }},
	} {
		if bound.n < 0 {
			faults = append(faults, fmt.Errorf("%s is %d; want 0 (the default) or more", bound.name, bound.n))
		}
		if bound.n == 0 {
			bound.to(bound.def)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("streams: configuration: %w", err)
	}
	return &Service{cfg: cfg, hub: newHub(cfg.TailBytes), pages: &pages{limit: cfg.Bytes}}, nil
}

// OnCommit implements [runtime.Observer]: it keeps the entry of a commit in memory and wakes the watches that wait for
// it.
func (r *Service) OnCommit(c *runtime.Commit) { r.hub.OnCommit(c) }

// Forget removes the entries of a deleted or erased run from memory, so that later readers read the store instead.
func (r *Service) Forget(key runtime.RunKey) { r.hub.forget(key) }

// NotifyChanged wakes the watches of a run after a change that is not a record, for example new turn output.
func (r *Service) NotifyChanged(key runtime.RunKey) {
	if r.hub.runSubs.Load() > 0 {
		r.hub.wakeRun(key)
	}
}

// End ends all watches.
func (r *Service) End() { r.hub.close() }

// toInt64 converts a seq or a position to the signed number that an error contains.
func toInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// ListRecordsRequest is the argument of [Service.ListTransitions].
type ListRecordsRequest struct {
	runtime.RunRef
	// Kinds are the selected kinds of records. If it is empty, transitions and the end of the run are selected.
	Kinds []machine.RecordKind
	// AfterSeq is the record after which the list begins. A PageToken takes precedence over it.
	AfterSeq  uint64
	PageToken string
	// PageSize is the largest number of records in a page, at most 1 000. 0 means 100. A page of large records has
	// fewer.
	PageSize int
	// Snapshots adds to each record the state of the run after the record and the values of its artifacts.
	Snapshots bool
}

// RecordPage is one page of records.
type RecordPage struct {
	Records []runtime.RecordRow
	// NextPage is the token of the next page. It is "" if the run has no further record now. After a full page it may
	// be set although no record follows.
	NextPage string
}

// Cut shortens the page to its first n records, so that the next page begins after them. n must be at least 1.
func (p *RecordPage) Cut(n int) {
	if n < len(p.Records) {
		p.Records, p.NextPage = p.Records[:n], strconv.FormatUint(p.Records[n-1].Record.Seq, 10)
	}
}

// ListTransitions lists a run's records in order.
func (r *Service) ListTransitions(ctx context.Context, req ListRecordsRequest) (RecordPage, error) {
	// Without this check, a request with an empty run id would open a watch of all runs.
	if _, err := r.cfg.Engine.FindReadable(req.RunRef); err != nil {
		return RecordPage{}, err
	}
	size, err := validate.PageSize(req.PageSize)
	if err != nil {
		return RecordPage{}, err
	}
	after := req.AfterSeq
	if req.PageToken != "" {
		if after, err = strconv.ParseUint(req.PageToken, 10, 64); err != nil {
			return RecordPage{}, validate.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
		}
	}
	w, err := r.Watch(ctx, Request{
		Call: req.Call, Filter: Filter{RunID: req.RunID, Kinds: req.Kinds}, AfterSeq: after,
		Snapshots: req.Snapshots,
	})
	if err != nil {
		return RecordPage{}, err
	}
	defer w.Close()
	return collect(ctx, w, size)
}

// maxListBytes bounds the records of one page, approximately and in bytes. The record that exceeds it is the last one
// of the page.
const maxListBytes = 2 << 20

// collect reads one page of records from a watch that does not wait for later records.
func collect(ctx context.Context, w *Watch, size int) (RecordPage, error) {
	var page RecordPage
	held := int64(0)
	for {
		batch, err := w.Next(ctx)
		if errors.Is(err, ErrEnded) {
			return page, nil
		}
		if err != nil {
			return page, err
		}
		for _, row := range batch.Records {
			page.Records = append(page.Records, row)
			held += rowBytes(&row)
			if len(page.Records) == size || held > maxListBytes {
				page.NextPage = strconv.FormatUint(row.Record.Seq, 10)
				return page, nil
			}
		}
	}
}

func snapshotBytes(view *runtime.RunView) int64 {
	if view == nil {
		return 0
	}
	var size int64
	for i := range view.Artifacts {
		size += int64(len(view.Artifacts[i].Value))
	}
	return size
}
