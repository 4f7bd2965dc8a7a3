package cluster

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// space is a namespace of a load, in which the same ids are used as in every other one.
type space struct {
	*load
	name string
	// conn takes each call to a node by chance.
	conn      namespaceConn
	runs      pawlv1.RunServiceClient
	read      *reader
	consumers []*consumer
	// calls are those of the clients that race.
	calls         *play.Linear
	racingClients []*play.LinearClient

	mu sync.Mutex
	// ids are its runs, processedRuns those of workers.
	ids           map[string]bool
	processedRuns []string
	// listed are its runs as they are listed in the end, by id.
	listed map[string]*pawlv1.Run
}

// racers are the clients that race in each namespace.
const racers = 2

func newSpace(l *load, name string) *space {
	s := &space{load: l, name: name, conn: namespaceConn{l.c.newSpread(), name}, ids: map[string]bool{}, listed: map[string]*pawlv1.Run{}, calls: play.NewLinear(l.ctx)}
	s.runs = pawlv1.NewRunServiceClient(s.conn)
	s.read = &reader{space: s, seqs: map[string]uint64{}, ends: map[string]*pawlv1.StepResolved{}}
	for _, name := range []string{"books", "ledger"} {
		s.consumers = append(s.consumers, newConsumer(s, name))
	}
	// A node makes ResolveStep again at the next owner; a take-over lasts longer than a pause.
	s.calls.AllowRepeats, s.calls.Slow = true, true
	for range racers {
		s.racingClients = append(s.racingClients, s.calls.Client(namespaceConn{l.c.newSpread(), name}))
	}
	return s
}

// begin starts what goes on in it: runs for workers, so many of each language, a probe of each node,
// a reader of everything and consumers of it, and clients that race.
func (s *space) begin(running *sync.WaitGroup, each int) {
	for _, speaks := range s.languages {
		for lane := range each {
			running.Go(func() { s.start(speaks.name, lane) })
		}
	}
	for _, n := range s.c.nodes {
		one := &probe{space: s, at: n}
		s.c.probes = append(s.c.probes, one)
		running.Go(one.run)
	}
	go s.read.readAll()
	for _, one := range s.consumers {
		go one.work()
	}
	for _, one := range s.racingClients {
		running.Go(one.Race)
	}
}

// known notes a run that there must be in the namespace.
func (s *space) known(run string) {
	s.mu.Lock()
	s.ids[run] = true
	s.mu.Unlock()
	s.noteRun(run)
}

// noteRun is called for each run of the namespace that any caller knows.
func (s *space) noteRun(run string) {
	s.homes.Lock()
	defer s.homes.Unlock()
	if home := s.namespaceOf[run]; home != nil && home != s {
		s.t.Errorf("run %s is in %s and in %s", run, home.name, s.name)
	}
	s.namespaceOf[run] = s
}

// start has one run after the other worked on.
func (s *space) start(name string, lane int) {
	for n := 0; !s.ended.Load() && s.ctx.Err() == nil; n++ {
		got, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
			return s.runs.StartRun(ctx, &pawlv1.StartRunRequest{
				Pack: "charge-" + name, Execution: pawlv1.Execution_EXECUTION_WORKERS, RequestId: fmt.Sprintf("%s-%d-%d", name, lane, n),
			})
		})
		if err != nil {
			s.t.Errorf("StartRun for %s in %s: %v", name, s.name, err)
			return
		}
		run := got.GetRun().GetRunId()
		s.known(run)
		s.mu.Lock()
		s.processedRuns = append(s.processedRuns, run)
		s.mu.Unlock()
		if !s.awaitEnd(run) {
			return
		}
	}
}

// awaitEnd waits until a run has ended.
func (s *space) awaitEnd(run string) bool {
	for {
		answer, err := play.Retry(s.drainContext, func(ctx context.Context) (*pawlv1.WaitRunResponse, error) {
			return s.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(5 * time.Second)})
		})
		if err != nil {
			got, _ := s.runs.GetRun(s.ctx, &pawlv1.GetRunRequest{RunId: run})
			workers, _ := pawlv1.NewWorkerServiceClient(s.conn).ListWorkers(s.ctx, &pawlv1.ListWorkersRequest{})
			s.t.Errorf("run %s of %s did not end: %v\n%v\nworkers: %v", run, s.name, err, got.GetRun(), workers)
			return false
		}
		if !answer.GetTimedOut() {
			return true
		}
	}
}

// checkRuns looks at every run of the namespace, and at what was seen of them.
func (s *space) checkRuns(driven []*play.Driver) {
	s.t.Helper()
	for _, d := range s.drivers(driven) {
		s.known(d.Run)
	}
	s.judgeListed()
	s.judgeSeen("the reader of everything", s.read.seq, func() bool { return false })
	for _, run := range s.processedRuns {
		s.judgeWorked(run)
	}
	for _, one := range s.consumers {
		s.judgeSeen("consumer "+one.name, one.seq, one.failed.Load)
		s.t.Log(one)
	}
}

// toolCalls are those of a worked run.
const toolCalls = 8

// judgeWorked: the bounds of a worked run are exact, and its steps, as the reader of everything saw them
// end, are what the world outside says.
func (s *space) judgeWorked(run string) {
	s.t.Helper()
	r := s.listed[run]
	if r.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || r.GetVisits()["work"] != 4 || r.GetVisits()["end"] != 1 || r.GetToolCalls() != toolCalls {
		s.t.Errorf("run %s: %v (%s), visits %v, %d tool calls: %v", run, r.GetStatus(), r.GetReason(), r.GetVisits(), r.GetToolCalls(), play.Journal(s.ctx, s.t, s.runs, run))
	}
	for step := range uint32(toolCalls) {
		if end := s.read.end(run, step+1); end != nil {
			s.book.answered(s.t, keyOf(run, step+1), end)
		}
	}
}

// foreignRuns are how many runs of a namespace are looked for in every other one.
const foreignRuns = 20

// judgeListed: all runs that there are in the namespace are of no other one, and not found there.
func (s *space) judgeListed() {
	s.t.Helper()
	for req := (&pawlv1.ListRunsRequest{PageSize: 200}); ; {
		page, err := s.runs.ListRuns(s.ctx, req)
		if err != nil {
			s.t.Errorf("ListRuns of %s: %v", s.name, err)
			return
		}
		for _, run := range page.GetRuns() {
			s.known(run.GetRunId())
			if s.listed[run.GetRunId()] = run; len(s.listed) <= foreignRuns {
				s.judgeStrange(run.GetRunId())
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if len(s.listed) != len(s.ids) {
		s.t.Errorf("%d runs are listed in %s, there must be %d", len(s.listed), s.name, len(s.ids))
	}
}

// judgeStrange: a run is not found in other namespaces.
func (s *space) judgeStrange(run string) {
	s.t.Helper()
	for _, other := range s.spaces {
		if other == s {
			continue
		}
		_, err := other.runs.GetRun(s.ctx, &pawlv1.GetRunRequest{RunId: run})
		if play.Reason(err) != "RUN_NOT_FOUND" {
			s.t.Errorf("run %s of %s is found in %s: %v", run, s.name, other.name, err)
		}
	}
}

// judgeSeen waits until a reader has seen each run as far as it was listed, if the reader has not lost
// its position.
func (s *space) judgeSeen(who string, seq func(run string) uint64, lost func() bool) {
	s.t.Helper()
	for run, listed := range s.listed {
		for seq(run) < listed.GetSeq() && s.ctx.Err() == nil && !lost() {
			s.read.pause()
		}
		if seen := seq(run); seen < listed.GetSeq() || seen > listed.GetSeq() && seen > s.positionOf(run) {
			s.t.Errorf("%s of %s saw run %s up to %d, it was listed with %d", who, s.name, run, seen, listed.GetSeq())
		}
	}
}

// positionOf returns the position of a run that may have continued: a turn that no executor executes
// continues by itself.
func (s *space) positionOf(run string) uint64 {
	s.t.Helper()
	got, err := s.runs.GetRun(s.ctx, &pawlv1.GetRunRequest{RunId: run})
	if err != nil {
		s.t.Errorf("run %s: %v", run, err)
	}
	return got.GetRun().GetSeq()
}

// compared: what was driven left the records that it leaves on a sidecar which nothing happens to.
func (l *load) compared(driven []*play.Driver) {
	l.t.Helper()
	const file = "../testdata/crash.pack.yaml"
	args := []string{"--allow-tool", "*", "--pack", file, "--data", l.t.TempDir()}
	for _, s := range l.spaces[1:] {
		args = append(args, "--namespace", s.name)
	}
	calm := newNode(l.t, "calm", args...)
	calm.start()
	for _, s := range l.spaces {
		conn := namespaceConn{calm.dial(), s.name}
		registerPacks(l.t, conn, file)
		play.CompareAll(l.t, s.drivers(driven), s.runs, pawlv1.NewRunServiceClient(conn))
	}
	calm.end(syscall.SIGTERM)
}

// drivers are those that were in the namespace.
func (s *space) drivers(all []*play.Driver) (own []*play.Driver) {
	for _, d := range all {
		if d.Client.(client).in == s {
			own = append(own, d)
		}
	}
	return own
}

// client is one of a namespace.
type client struct {
	pawlv1.RunServiceClient
	in *space
}

// client returns another client for a program that drives runs, of each namespace in turn.
func (l *load) client() pawlv1.RunServiceClient {
	s := l.spaces[int(l.clients.Add(1))%len(l.spaces)]
	return client{pawlv1.NewRunServiceClient(namespaceConn{l.c.newSpread(), s.name}), s}
}
