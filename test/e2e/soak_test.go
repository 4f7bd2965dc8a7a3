package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
)

// soak is a load of everything on one sidecar that is stopped or killed again and again.
type soak struct {
	*sidecar

	ctx      context.Context
	finished atomic.Bool
	// acknowledged counts acknowledged changes, ended the runs that came to their end, read the
	// records that the watcher was shown, steps the executions of the tool.
	acknowledged, ended, read, steps atomic.Int64
	// deletedRuns counts the runs that were deleted.
	deletedRuns atomic.Int64
	scripts     atomic.Int64
	load        sync.WaitGroup

	mu sync.Mutex
	// recent are drivers whose runs have ended since the last start, deleted the runs that
	// were deleted since then.
	recent  []*play.Driver
	deleted []string
}

const (
	soakDrivers = 4
	soakVisits  = 8
	// soakRecent bounds what is proven after each start, and soakKept how many runs are
	// kept that ended.
	soakRecent = 200
	soakKept   = 1000
)

// TestSoak runs for the time PAWL_SOAK (2 s by default). Drivers, workers with steps, delegations over A2A, retried
// turns, a watcher, a webhook and a deleter of ended runs load a sidecar that is restarted each minute, or more
// often if there are few, by SIGTERM and SIGKILL in turn. After each restart no acknowledged record is missing.
// Every run ends, the resources of the process do not grow, and the check at the end finds no fault.
func TestSoak(t *testing.T) {
	t.Parallel()
	lasts := 2 * time.Second
	if d, err := time.ParseDuration(os.Getenv("PAWL_SOAK")); err == nil {
		lasts = d
	}
	s := newSoak(t, lasts)
	s.begin()
	life := min(time.Minute, lasts/2)
	var samples []sample
	began := time.Now()
	for n := 0; time.Since(began) < lasts && !t.Failed(); n++ {
		samples = append(samples, s.runFor(began, life))
		s.restart(n%2 == 1)
		s.prove()
	}
	s.end()
	flat(t, samples)
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	s.check()
	testkit.ReportTried(t, len(samples), "restarts")
	t.Logf("soak: %v, %d restarts, %d runs ended, %d deleted, %d changes of drivers acknowledged, %d steps executed, %d records read",
		time.Since(began).Round(time.Second), len(samples), s.ended.Load(), s.deletedRuns.Load(), s.acknowledged.Load(), s.steps.Load(), s.read.Load())
}

func newSoak(t *testing.T, lasts time.Duration) *soak {
	t.Helper()
	s := &soak{sidecar: newSidecar(t), ctx: deadline(t, lasts+10*patience)}
	s.args = []string{
		"--pack", "testdata/crash.pack.yaml", "--pack", "testdata/count.json", "--pack", "testdata/team.pack.yaml",
		"--allow-tool", "*", "--metrics", "127.0.0.1:0", "--push-allow", "127.0.0.1",
		// Its own agent, over A2A.
		"--agent", "helper=" + cardOf(t, doorTo(t, s.socket), "team/helper"),
	}
	s.start()
	return s
}

// begin starts all load generators.
func (s *soak) begin() {
	s.t.Helper()
	heard := newEar(s.t)
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))
	put := &pawlv1.PutWebhookRequest{WebhookId: "soak", Url: heard.URL, Secret: secret, FromBeginning: true}
	if _, err := s.deliveries().PutWebhook(s.ctx, put); err != nil {
		s.t.Fatal(err)
	}
	for range soakDrivers {
		s.load.Go(s.drive)
	}
	for pack, n := range map[string]int{"count": 4, "team": 2} {
		for range n {
			s.load.Go(func() { s.keepStarting(pack) })
		}
	}
	s.load.Go(s.watch)
	s.load.Go(s.deleteOldRuns)
	for _, cfg := range []pawl.WorkerConfig{
		{ID: "turns", Turns: 8, Prompts: map[string]pawl.TurnFunc{"counter": s.count, "lead": leadOnce, "helper": help}},
		{ID: "steps", Steps: 4, Tools: map[string]pawl.ToolFunc{"add": s.add}},
	} {
		stop := startWorker(s.ctx, s.t, s.sidecar, cfg)
		s.t.Cleanup(stop)
	}
}

// drive plays scripts; those that are over are proven after the next start.
func (s *soak) drive() {
	client := s.runs()
	for !s.finished.Load() && s.ctx.Err() == nil {
		d := &play.Driver{Client: client, Script: int(s.scripts.Add(1)), Acked: &s.acknowledged, Ledger: map[uint64][]byte{}}
		if err := d.Play(s.ctx); err != nil && !errors.Is(err, play.ErrRunEnded) {
			s.t.Errorf("script %d, run %s: %v", d.Script, d.Run, err)
			return
		}
		s.ended.Add(1)
		s.mu.Lock()
		if len(s.recent) < soakRecent {
			s.recent = append(s.recent, d)
		}
		s.mu.Unlock()
	}
}

// keepStarting has one run of a pack under way that workers execute.
func (s *soak) keepStarting(pack string) {
	client := s.runs()
	for !s.finished.Load() && s.ctx.Err() == nil {
		id := fmt.Sprint(pack, "-", s.scripts.Add(1))
		got, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
			return client.StartRun(ctx, &pawlv1.StartRunRequest{Pack: pack, Execution: pawlv1.Execution_EXECUTION_WORKERS, RequestId: id})
		})
		if err != nil {
			s.t.Errorf("StartRun of %s: %v", pack, err)
			return
		}
		run, err := s.awaitEnd(client, got.GetRun().GetRunId())
		if err != nil || run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			s.t.Errorf("run %s of %s ended %v (%s), %v", got.GetRun().GetRunId(), pack, run.GetStatus(), run.GetReason(), err)
			return
		}
		s.ended.Add(1)
	}
}

// awaitEnd gives a run that no executor continues five minutes.
func (s *soak) awaitEnd(client pawlv1.RunServiceClient, run string) (*pawlv1.Run, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 5*patience)
	defer cancel()
	for {
		got, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.WaitRunResponse, error) {
			return client.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run})
		})
		if err != nil || !got.GetTimedOut() {
			return got.GetRun(), err
		}
	}
}

// deleteOldRuns deletes runs that ended, the oldest first, as retention would.
func (s *soak) deleteOldRuns() {
	client := s.runs()
	ended := []pawlv1.RunStatus{
		pawlv1.RunStatus_RUN_STATUS_COMPLETED, pawlv1.RunStatus_RUN_STATUS_BUDGET_EXHAUSTED,
		pawlv1.RunStatus_RUN_STATUS_ESCALATED, pawlv1.RunStatus_RUN_STATUS_FAILED,
	}
	for !s.finished.Load() && s.ctx.Err() == nil {
		var ids []string
		req := &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{Statuses: ended}, PageSize: 200}
		for len(ids) == 0 || req.GetPageToken() != "" {
			page, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.ListRunsResponse, error) { return client.ListRuns(ctx, req) })
			if err != nil {
				s.t.Errorf("ListRuns: %v", err)
				return
			}
			for _, r := range page.GetRuns() {
				ids = append(ids, r.GetRunId())
			}
			if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
		for _, id := range ids[min(soakKept, len(ids)):] {
			s.delete(client, id)
		}
		select {
		case <-time.After(time.Second):
		case <-s.ctx.Done():
		}
	}
}

// delete deletes a run, unless the one that delegated to it goes on.
func (s *soak) delete(client pawlv1.RunServiceClient, id string) {
	_, err := play.Retry(s.ctx, func(ctx context.Context) (*pawlv1.DeleteRunResponse, error) {
		return client.DeleteRun(ctx, &pawlv1.DeleteRunRequest{RunId: id})
	})
	if play.Reason(err) == "RUN_NEEDED" {
		return
	}
	if err != nil {
		s.t.Errorf("DeleteRun %s: %v", id, err)
		return
	}
	s.deletedRuns.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.deleted) < soakRecent {
		s.deleted = append(s.deleted, id)
	}
}

// watch reads all records, and goes on behind the last one after each restart.
func (s *soak) watch() {
	client, cursor := s.runs(), ""
	for !s.finished.Load() && s.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		stream, err := client.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Follow: true, AfterCursor: cursor})
		for err == nil && !s.finished.Load() {
			var got *pawlv1.StreamTransitionsResponse
			if got, err = stream.Recv(); got.GetRecord() != nil {
				cursor = got.GetRecord().GetCursor()
				s.read.Add(1)
			}
		}
		cancel()
		if why := play.Reason(err); why != "" && why != "DRAINING" {
			s.t.Logf("the watcher's stream ended: %v", err)
		}
	}
}

func (s *soak) count(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	view := t.Assignment.GetTurn()
	if view.GetTerminal() {
		return pawl.Completion{}, nil
	}
	if _, err := t.Step(ctx, "add", "add", `{}`); err != nil {
		return pawl.Completion{}, err
	}
	if view.GetTurn().GetVisit() < soakVisits {
		return pawl.Completion{Event: "More"}, nil
	}
	return pawl.Completion{Event: "Enough"}, nil
}

func (s *soak) add(context.Context, *pawl.Step) (json.RawMessage, error) {
	s.steps.Add(1)
	return json.RawMessage(`1`), nil
}

// leadOnce delegates once.
func leadOnce(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	if turn.Assignment.GetTurn().GetTerminal() {
		return pawl.Completion{}, nil
	}
	if _, err := turn.Step(ctx, "ask", "helper", `{"message":"help"}`); err != nil {
		return pawl.Completion{}, err
	}
	return pawl.Completion{Event: "Done"}, nil
}

func help(context.Context, *pawl.Turn) (pawl.Completion, error) {
	return pawl.Completion{Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "helped"}}}}, nil
}

// runFor lets the process live for a while and takes a sample at its end.
func (s *soak) runFor(began time.Time, lasts time.Duration) sample {
	s.t.Helper()
	select {
	case <-time.After(lasts):
	case <-s.done:
		s.t.Fatalf("the process ended by itself: %s", s.stderr.String())
	}
	got, err := take(s.sidecar)
	if err != nil {
		s.t.Fatalf("sample: %v", err)
	}
	got.at, got.ended, got.deletedRuns, got.acknowledged = time.Since(began), s.ended.Load(), s.deletedRuns.Load(), s.acknowledged.Load()
	s.t.Logf("soak: %v", got)
	return got
}

func (s *soak) restart(killed bool) {
	s.t.Helper()
	if killed {
		s.kill()
	} else if code := s.stop(); code != 0 {
		s.t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	s.start()
}

// prove looks for everything that ended before the last start and was acknowledged.
func (s *soak) prove() {
	s.t.Helper()
	s.mu.Lock()
	recent, deleted := s.recent, s.deleted
	s.recent, s.deleted = nil, nil
	s.mu.Unlock()
	client := s.runs()
	for _, id := range deleted {
		if _, err := client.GetRun(s.ctx, &pawlv1.GetRunRequest{RunId: id}); play.Reason(err) != "RUN_DELETED" {
			s.t.Errorf("run %s was deleted: %v", id, err)
		}
	}
	for _, d := range recent {
		losses := lostOf(s.ctx, client, d.Run, d.Ledger)
		// This is read afterwards, because another goroutine deletes runs meanwhile.
		if _, err := client.GetRun(s.ctx, &pawlv1.GetRunRequest{RunId: d.Run}); play.Reason(err) == "RUN_DELETED" {
			continue
		}
		for _, loss := range losses {
			s.t.Errorf("script %d: %s", d.Script, loss)
		}
	}
}

// end waits until all runs have ended.
func (s *soak) end() {
	s.t.Helper()
	s.finished.Store(true)
	s.load.Wait()
	client := s.runs()
	counts, err := client.CountRuns(s.ctx, &pawlv1.CountRunsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range counts.GetCounts() {
		if c.GetRuns() > 0 && c.GetStatus() < pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			s.t.Errorf("%d runs are %v at the end", c.GetRuns(), c.GetStatus())
		}
	}
}
