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

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/e2e/play"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// load is what goes on while faults happen, but for the runs that are driven by their caller.
type load struct {
	t    *testing.T
	c    *cluster
	ctx  context.Context
	over atomic.Bool
	// patient ends when what was under way at the end should have ended.
	patient context.Context
	lose    context.CancelFunc
	conn    spread
	runs    pawlv1.RunServiceClient
	book    *ledger
	// languages serve; each has so many runs under way.
	languages []language
	each      int
	read      *reader
	consumers []*consumer

	mu  sync.Mutex
	ids map[string]bool
	// worked are the runs of workers.
	worked []string
}

func newLoad(ctx context.Context, c *cluster, runs int) *load {
	l := &load{t: c.t, c: c, ctx: ctx, conn: c.spread(), book: newLedger(c.t), ids: map[string]bool{}}
	l.runs = pawlv1.NewRunServiceClient(l.conn)
	l.patient, l.lose = context.WithCancel(ctx)
	l.languages = languages(c.t)
	l.each = max(1, runs*3/4/len(l.languages))
	l.read = &reader{load: l, seqs: map[string]uint64{}}
	for _, name := range []string{"books", "ledger"} {
		l.consumers = append(l.consumers, newConsumer(l, name))
	}
	return l
}

// begin starts all of it: workers of each language at two nodes, their runs, a probe of each
// node, a reader of everything and consumers of it.
func (l *load) begin(beside *sync.WaitGroup) {
	for n, speaks := range l.languages {
		for i := range 2 {
			speaks.serve(l, l.c.nodes[(n+i)%len(l.c.nodes)], speaks.name)
		}
		for lane := range l.each {
			beside.Go(func() { l.start(speaks.name, lane) })
		}
	}
	for _, n := range l.c.nodes {
		beside.Go(func() { l.probe(n) })
	}
	go l.read.everything()
	for _, one := range l.consumers {
		go one.work()
	}
}

// end lets what is under way end.
func (l *load) end() {
	l.over.Store(true)
	time.AfterFunc(patience, l.lose)
}

func (l *load) known(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[run] = true
}

// start has one run after the other worked on.
func (l *load) start(name string, lane int) {
	for n := 0; !l.over.Load() && l.ctx.Err() == nil; n++ {
		got, err := play.Retry(l.ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
			return l.runs.StartRun(ctx, &pawlv1.StartRunRequest{
				Pack: "charge-" + name, Execution: pawlv1.Execution_EXECUTION_WORKERS, RequestId: fmt.Sprintf("%s-%d-%d", name, lane, n),
			})
		})
		if err != nil {
			l.t.Errorf("StartRun for %s: %v", name, err)
			return
		}
		run := got.GetRun().GetRunId()
		l.known(run)
		l.mu.Lock()
		l.worked = append(l.worked, run)
		l.mu.Unlock()
		for waited := false; !waited; {
			answer, err := play.Retry(l.patient, func(ctx context.Context) (*pawlv1.WaitRunResponse, error) {
				return l.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(5 * time.Second)})
			})
			if err != nil {
				got, _ := l.runs.GetRun(l.ctx, &pawlv1.GetRunRequest{RunId: run})
				workers, _ := pawlv1.NewWorkerServiceClient(l.c.nodes[0].dial()).ListWorkers(l.ctx, &pawlv1.ListWorkersRequest{})
				l.t.Errorf("run %s of %s did not end: %v\n%v\nworkers: %v", run, name, err, got.GetRun(), workers)
				return
			}
			waited = !answer.GetTimedOut()
		}
	}
}

// judge looks at every run, at the world outside, and at what the reader saw.
func (l *load) judge(driven []*play.Driver) {
	l.t.Helper()
	for _, run := range l.worked {
		l.judgeWorked(run)
	}
	l.book.judge(l.t)
	for _, d := range driven {
		l.ids[d.Run] = true
	}
	l.judgeSeen("the reader of everything", l.read.seq, func() bool { return false })
	for _, one := range l.consumers {
		l.judgeSeen("consumer "+one.name, one.seq, one.lost.Load)
		l.t.Log(one)
	}
	l.t.Logf("%d runs of %d languages worked on, %d effects, %d driven, %d records read in order over %d streams",
		len(l.worked), len(l.languages), len(l.book.calls), len(driven), l.read.count.Load(), l.read.streams.Load())
}

// judgeWorked: the bounds of a worked run are exact, and its steps are what the world outside
// says.
func (l *load) judgeWorked(run string) {
	l.t.Helper()
	got, err := l.runs.GetRun(l.ctx, &pawlv1.GetRunRequest{RunId: run})
	r := got.GetRun()
	if err != nil || r.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || r.GetVisits()["work"] != 4 || r.GetVisits()["end"] != 1 || r.GetToolCalls() != 8 {
		l.t.Errorf("run %s: %v (%s), visits %v, %d tool calls, %v: %v", run, r.GetStatus(), r.GetReason(), r.GetVisits(), r.GetToolCalls(), err, play.Journal(l.ctx, l.t, l.runs, run))
	}
	for _, record := range play.Journal(l.ctx, l.t, l.runs, run) {
		step := record.GetStepResolved()
		if step == nil || step.GetNext() != 0 {
			continue
		}
		key := fmt.Sprintf("%s/%d", run, step.GetStep())
		l.book.answered(l.t, key, step)
	}
}

// reader reads everything, at a node by chance each time that its stream ends.
type reader struct {
	*load

	mu      sync.Mutex
	seqs    map[string]uint64
	cursor  string
	count   atomic.Int64
	streams atomic.Int64
}

func (r *reader) everything() {
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
	if want := r.seqs[record.GetRunId()] + 1; record.GetSeq() != want {
		r.t.Errorf("the reader of everything saw record %d of run %s instead of %d", record.GetSeq(), record.GetRunId(), want)
	}
	r.seqs[record.GetRunId()] = record.GetSeq()
}

// judgeSeen waits until somebody has seen the end of every run that is known, unless he has lost
// his place.
func (l *load) judgeSeen(who string, seq func(run string) uint64, lost func() bool) {
	l.t.Helper()
	for run := range l.ids {
		got, err := l.runs.GetRun(l.ctx, &pawlv1.GetRunRequest{RunId: run})
		if err != nil {
			l.t.Errorf("run %s: %v", run, err)
			continue
		}
		want := got.GetRun().GetSeq()
		for seq(run) < want && l.ctx.Err() == nil && !lost() {
			l.read.pause()
		}
		if seen := seq(run); seen != want {
			l.t.Errorf("%s saw run %s up to %d, it has %d", who, run, seen, want)
		}
	}
}

func (r *reader) seq(run string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seqs[run]
}
