package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// TestWaitingIsTheSameAtEachNode: each node gives the same answer about what a run waits for, in GetRun, in ListRuns and
// in lists by what runs wait for, and about the connected workers. While a partition has no owner, a caller waits or gets an error,
// never another answer. The next owner says the same.
func TestWaitingIsTheSameAtEachNode(t *testing.T) {
	c := newCluster(t, 3, 3)
	c.awaitEvenShares(time.Now(), patience)
	var all []*waitingSpace
	for _, name := range c.spaces {
		s := &waitingSpace{c: c, name: name, runs: map[string]pawlv1.WaitingKind{}, said: map[string]string{}}
		s.begin()
		s.checkEach(c.nodes, true)
		all = append(all, s)
	}
	victim := c.owner(c.parts[all[1].name])
	left := c.nodesExcept(victim)
	victim.end(syscall.SIGKILL)
	// That of the victim is first, because it has no owner now.
	all[0], all[1] = all[1], all[0]
	for _, s := range all {
		s.checkTakeover(left)
		s.checkEach(left, false)
	}
	victim.start()
	for _, s := range all {
		s.checkEach(c.nodes, false)
	}
	all[0].checkWorkers()
	c.stopped()
}

// waitingSpace is a namespace with a run for each kind of wait that needs no worker.
type waitingSpace struct {
	c    *cluster
	name string
	// runs are the kinds by run, and said the whole answers before a takeover.
	runs map[string]pawlv1.WaitingKind
	said map[string]string
}

func (s *waitingSpace) at(n *node) namespaceConn { return namespaceConn{n.dial(), s.name} }

func (s *waitingSpace) begin() {
	t, ctx := s.c.t, s.c.ctx
	t.Helper()
	runs := pawlv1.NewRunServiceClient(s.at(s.c.nodes[0]))
	start := func(pack string, by pawlv1.Execution, kind pawlv1.WaitingKind) string {
		t.Helper()
		got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{
			Pack: pack, Execution: by, RequestId: fmt.Sprint("waits-", kind), VariablesJson: map[string]string{"crash": `{"topic":"x"}`}[pack],
		})
		if err != nil {
			t.Fatalf("StartRun of %s in %s: %v", pack, s.name, err)
		}
		s.runs[got.GetRun().GetRunId()] = kind
		return got.GetRun().GetRunId()
	}
	start("ping", pawlv1.Execution_EXECUTION_CALLER, pawlv1.WaitingKind_WAITING_KIND_EVENT)
	start("crash", pawlv1.Execution_EXECUTION_CALLER, pawlv1.WaitingKind_WAITING_KIND_CALLER)
	start("charge-go", pawlv1.Execution_EXECUTION_WORKERS, pawlv1.WaitingKind_WAITING_KIND_NO_WORKER)
	paused := start("ping", pawlv1.Execution_EXECUTION_CALLER, pawlv1.WaitingKind_WAITING_KIND_PAUSED)
	if _, err := runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: paused, RequestId: "pause"}); err != nil {
		t.Fatal(err)
	}
}

// checkEach compares the answers of nodes with what the runs wait for. before means that there was no takeover yet.
func (s *waitingSpace) checkEach(nodes []*node, before bool) {
	s.c.t.Helper()
	for _, n := range nodes {
		if err := s.check(s.c.ctx, n, before); err != nil {
			s.c.t.Errorf("node %s: %v", n.name, err)
		}
	}
}

// check asks a node about each run and for each list. It returns the error of a call, and reports a wrong answer itself.
func (s *waitingSpace) check(ctx context.Context, n *node, before bool) error {
	t, runs := s.c.t, pawlv1.NewRunServiceClient(s.at(n))
	t.Helper()
	for run, kind := range s.runs {
		got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
		if err != nil {
			return err
		}
		waits := prototext.Format(got.GetRun().GetWaiting())
		if before && s.said[run] == "" {
			s.said[run] = waits
		}
		// An owner has the time of the last request of a caller only in memory.
		same := waits == s.said[run] || kind == pawlv1.WaitingKind_WAITING_KIND_CALLER && !before
		if got.GetRun().GetWaiting().GetKind() != kind || !same {
			t.Errorf("node %s: run %s of %s waits for\n%s, want %s as in\n%s", n.name, run, s.name, waits, kind, s.said[run])
		}
		listed, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{Filter: &pawlv1.RunFilter{Waiting: []pawlv1.WaitingKind{kind}}})
		if err != nil {
			return err
		}
		if len(listed.GetRuns()) != 1 || listed.GetRuns()[0].GetRunId() != run || prototext.Format(listed.GetRuns()[0].GetWaiting()) != waits {
			t.Errorf("node %s: the runs of %s that wait for %s are\n%v, want %s with\n%s", n.name, s.name, kind, listed.GetRuns(), run, waits)
		}
	}
	listed, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{})
	if err != nil {
		return err
	}
	if len(listed.GetRuns()) != len(s.runs) {
		t.Errorf("node %s: %d runs in %s, want %d", n.name, len(listed.GetRuns()), s.name, len(s.runs))
	}
	for _, run := range listed.GetRuns() {
		if got := run.GetWaiting().GetKind(); got != s.runs[run.GetRunId()] {
			t.Errorf("node %s: run %s of %s is listed with %s, want %s", n.name, run.GetRunId(), s.name, got, s.runs[run.GetRunId()])
		}
	}
	return nil
}

// checkTakeover asks the nodes in short calls until the partition has its next owner. A call may only end late, or as unavailable.
func (s *waitingSpace) checkTakeover(nodes []*node) {
	t, refused, began := s.c.t, 0, time.Now()
	t.Helper()
	for _, n := range nodes {
		for {
			ctx, cancel := context.WithTimeout(s.c.ctx, 200*time.Millisecond)
			err := s.check(ctx, n, false)
			cancel()
			if err == nil {
				break
			}
			refused++
			if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
				t.Fatalf("node %s, in %s during the takeover: %v", n.name, s.name, err)
			}
			if time.Since(began) > patience {
				t.Fatalf("node %s has no answer about %s after %v: %v", n.name, s.name, patience, err)
			}
		}
	}
	t.Logf("%s: each node answers %v after the kill; %d calls were refused or late", s.name, time.Since(began).Round(time.Millisecond), refused)
}

// checkWorkers connects a worker to each node. Each node lists all of them, also after the owner was killed, and a run that one
// has waits for this worker at each node.
func (s *waitingSpace) checkWorkers() {
	c, t := s.c, s.c.t
	t.Helper()
	var want []string
	for _, n := range c.nodes {
		want = append(want, "w-"+n.name)
		s.work(n, "w-"+n.name)
	}
	s.awaitWorkers(c.nodes, want)
	s.awaitHeld(c.nodes)
	victim := c.owner(c.parts[s.name])
	c.kill(victim)
	s.awaitWorkers(c.nodes, want)
	s.awaitHeld(c.nodes)
}

// work serves the namespace at a node. Its turns last as long as the test.
func (s *waitingSpace) work(n *node, id string) {
	t := s.c.t
	t.Helper()
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		ID: id, Namespace: s.name, Conn: n.dial(), Retry: 20 * time.Millisecond, Turns: 1, Packs: []string{"charge-go"},
		Prompts: map[string]pawl.TurnFunc{"*": func(ctx context.Context, _ *pawl.Turn) (pawl.Completion, error) {
			<-ctx.Done()
			return pawl.Completion{}, ctx.Err()
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done // its turn ends with the test
	})
}

// awaitWorkers waits until each node lists these workers.
func (s *waitingSpace) awaitWorkers(nodes []*node, want []string) {
	s.c.t.Helper()
	for _, n := range nodes {
		workers := pawlv1.NewWorkerServiceClient(s.at(n))
		var got []string
		s.await(fmt.Sprintf("node %s lists the workers %v of %s", n.name, want, s.name), func() bool {
			listed, err := play.Retry(s.c.ctx, func(ctx context.Context) (*pawlv1.ListWorkersResponse, error) {
				return workers.ListWorkers(ctx, &pawlv1.ListWorkersRequest{})
			})
			got = got[:0]
			for _, one := range listed.GetWorkers() {
				got = append(got, one.GetWorkerId())
			}
			return err == nil && slices.Equal(got, want)
		})
	}
}

// awaitHeld waits until the run for workers waits for a worker, and is the same worker at each node.
func (s *waitingSpace) awaitHeld(nodes []*node) {
	s.c.t.Helper()
	for run, kind := range s.runs {
		if kind != pawlv1.WaitingKind_WAITING_KIND_NO_WORKER {
			continue
		}
		s.await("a worker has run "+run+", and each node names the same one", func() bool {
			var holders []string
			for _, n := range nodes {
				got, err := play.Retry(s.c.ctx, func(ctx context.Context) (*pawlv1.GetRunResponse, error) {
					return pawlv1.NewRunServiceClient(s.at(n)).GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
				})
				if err != nil || got.GetRun().GetWaiting().GetKind() != pawlv1.WaitingKind_WAITING_KIND_WORKER {
					return false
				}
				holders = append(holders, got.GetRun().GetWaiting().GetWorkerId())
			}
			return strings.HasPrefix(holders[0], "w-") && len(slices.Compact(holders)) == 1
		})
	}
}

func (s *waitingSpace) await(what string, holds func() bool) {
	s.c.t.Helper()
	for began := time.Now(); !holds() && !s.c.t.Failed(); s.c.keepFault(10 * time.Millisecond) {
		if time.Since(began) > patience {
			s.c.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
