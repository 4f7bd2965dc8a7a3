package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// load is what goes on while faults happen, in each namespace the same.
type load struct {
	t     *testing.T
	c     *cluster
	ctx   context.Context
	ended atomic.Bool
	// drainContext ends when what was under way at the end should have ended.
	drainContext context.Context
	cancelAll    context.CancelFunc
	book         *ledger
	// languages serve; each has runsPerSpace runs in progress in each namespace.
	languages    []language
	runsPerSpace int
	spaces       []*space
	// clients counts those that drive runs.
	clients atomic.Int64

	homes sync.Mutex
	// namespaceOf is the namespace of each run that any caller knows.
	namespaceOf map[string]*space
}

func newLoad(ctx context.Context, c *cluster, runs int) *load {
	l := &load{t: c.t, c: c, ctx: ctx, book: newLedger(c.t), namespaceOf: map[string]*space{}}
	l.drainContext, l.cancelAll = context.WithCancel(ctx)
	l.languages = languages(c.t)
	l.runsPerSpace = max(1, runs*3/4/len(l.languages)/len(c.spaces))
	for _, name := range c.spaces {
		l.spaces = append(l.spaces, newSpace(l, name))
	}
	return l
}

// begin starts all of it: workers of each language at two nodes, for all namespaces, and what goes on
// in each of these.
func (l *load) begin(beside *sync.WaitGroup) {
	for n, speaks := range l.languages {
		for i := range min(2, len(l.c.nodes)) {
			speaks.serve(l, l.c.nodes[(n+i)%len(l.c.nodes)], speaks.name)
		}
	}
	for _, s := range l.spaces {
		s.begin(beside, l.runsPerSpace)
	}
}

// end lets what is under way end.
func (l *load) end() {
	l.ended.Store(true)
	for _, s := range l.spaces {
		s.calls.Ended.Store(true)
	}
	time.AfterFunc(patience, l.cancelAll)
}

// checkAll looks at every namespace, and at the world outside.
func (l *load) checkAll(driven []*play.Driver) {
	l.t.Helper()
	var all errgroup.Group
	for _, s := range l.spaces {
		all.Go(func() error {
			s.calls.Judge(l.t, "../testdata/desk.pack.yaml")
			s.checkRuns(driven)
			return nil
		})
	}
	_ = all.Wait()
	worked, records, streams := 0, int64(0), int64(0)
	for _, s := range l.spaces {
		worked += len(s.processedRuns)
		records += s.read.count.Load()
		streams += s.read.streams.Load()
	}
	l.book.checkEffects(l.t)
	l.t.Logf("%d namespaces: %d runs of %d languages worked on, %d effects, %d driven, %d records read in order over %d streams",
		len(l.spaces), worked, len(l.languages), len(l.book.calls), len(driven), records, streams)
}

// reader reads everything, at a node by chance each time that its stream ends.
type reader struct {
	*space

	mu   sync.Mutex
	seqs map[string]uint64
	// ends are the last answers to steps, by run and step as in [keyOf].
	ends    map[string]*pawlv1.StepResolved
	cursor  string
	count   atomic.Int64
	streams atomic.Int64
}

func (r *reader) readAll() {
	for r.ctx.Err() == nil {
		if err := r.stream(); err != nil && !errors.Is(err, io.EOF) && r.ctx.Err() == nil {
			r.pause()
		}
	}
}

// pause keeps a reader that is refused from asking all the time.
func (r *reader) pause() {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func (r *reader) stream() error {
	r.streams.Add(1)
	stream, err := r.runs.StreamTransitions(r.ctx, &pawlv1.StreamTransitionsRequest{Follow: true, AfterCursor: r.cursor, Kinds: play.EveryKind()})
	for err == nil {
		var got *pawlv1.StreamTransitionsResponse
		if got, err = stream.Recv(); err == nil {
			r.take(got)
		}
	}
	return err
}

func (r *reader) take(got *pawlv1.StreamTransitionsResponse) {
	if beat := got.GetHeartbeat(); beat != nil {
		r.cursor = beat.GetCursor()
	}
	record := got.GetRecord()
	if record == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cursor = record.GetCursor()
	r.count.Add(1)
	want := r.seqs[record.GetRunId()] + 1
	if record.GetSeq() != want {
		r.t.Errorf("the reader of everything of %s saw record %d of run %s instead of %d", r.name, record.GetSeq(), record.GetRunId(), want)
	}
	if want == 1 {
		r.noteRun(record.GetRunId())
	}
	r.seqs[record.GetRunId()] = record.GetSeq()
	if step := record.GetStepResolved(); step != nil && step.GetNext() == 0 {
		r.ends[keyOf(record.GetRunId(), step.GetStep())] = step
	}
}

// keyOf is the key of a step, as the world outside knows it.
func keyOf(run string, step uint32) string { return fmt.Sprintf("%s/%d", run, step) }

// end is the answer to a step, if it has one.
func (r *reader) end(run string, step uint32) *pawlv1.StepResolved {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends[keyOf(run, step)]
}

func (r *reader) seq(run string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seqs[run]
}
