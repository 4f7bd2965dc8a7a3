package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

const (
	delegationKills = 6
	delegatingRuns  = 6
	// delegationsEach is how often each run delegates, one after the other.
	delegationsEach = 6
)

// pair is a sidecar a whose runs delegate to the agents of a sidecar b. b has an
// address that outlives it.
type pair struct {
	a, b *sidecar
	ctx  context.Context
}

func newPair(t *testing.T) *pair {
	t.Helper()
	return newPairOf(t, "team/helper", "helper", "--pack", "testdata/team.pack.yaml", "--allow-tool", "*")
}

// newPairOf is one of a pack whose agent is the tenant's of b.
func newPairOf(t *testing.T, tenant, agent string, args ...string) *pair {
	t.Helper()
	b := newSidecar(t, args...)
	card := cardOf(t, doorTo(t, b.socket), tenant)
	p := &pair{a: newSidecar(t, append(args, "--agent", agent+"="+card)...), b: b}
	p.b.start()
	p.a.start()
	// Begun only now: the first test to come builds the binary.
	p.ctx = deadline(t, 2*time.Minute)
	return p
}

// doorTo listens for what is meant for a socket.
func doorTo(t *testing.T, socket string) string {
	t.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { door.Close() })
	go func() {
		for {
			in, err := door.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", socket)
			if err != nil {
				in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					in.Close()
					out.Close()
				}()
			}
		}
	}()
	return door.Addr().String()
}

// cardOf serves an agent's card, which names an address for gRPC, as a sidecar would.
func cardOf(t *testing.T, addr, tenant string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "helper",
			"supportedInterfaces": []any{
				map[string]string{"url": addr, "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": tenant},
			},
			// What every sidecar's card says: without it, a message whose fate is unknown is
			// not sent again but goes by the pack's on_unknown.
			"capabilities": map[string]any{"extensions": []any{
				map[string]string{"uri": "https://pawl.dev/a2a/delegation/v1"},
				map[string]string{"uri": "https://pawl.dev/a2a/idempotent-send/v1"},
			}},
		})
	}))
	t.Cleanup(s.Close)
	return s.URL + "/card"
}

// start starts a run on a.
func (p *pair) start() string {
	p.a.t.Helper()
	got, err := p.a.runs().StartRun(p.ctx, &pawlv1.StartRunRequest{Pack: "team", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		p.a.t.Fatal(err)
	}
	return got.GetRun().GetRunId()
}

// end waits for the end of a run.
func (p *pair) end(s *sidecar, id string) *pawlv1.Run {
	s.t.Helper()
	runs := s.runs()
	var run *pawlv1.Run
	eventually(s.t, "run "+id+" ends", func() bool {
		got, err := runs.WaitRun(p.ctx, &pawlv1.WaitRunRequest{RunId: id})
		run = got.GetRun()
		return err == nil && !got.GetTimedOut() || p.ctx.Err() != nil
	})
	return run
}

func (p *pair) check() {
	for _, s := range []*sidecar{p.a, p.b} {
		s.kill()
		s.check()
	}
}

// TestKillWithDelegations sends SIGKILL to either sidecar while runs of one
// delegate to the other: each delegation is one task that ran once, and its result
// arrives.
func TestKillWithDelegations(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	var helped atomic.Int64
	var mu sync.Mutex
	executed := map[string]int{}
	stopLead := startWorker(p.ctx, t, p.a, pawl.WorkerConfig{ID: "lead", Turns: delegatingRuns, Prompts: map[string]pawl.TurnFunc{"lead": leadTurn}})
	defer stopLead()
	stopHelper := startWorker(p.ctx, t, p.b, pawl.WorkerConfig{ID: "helper", Turns: 4, Prompts: map[string]pawl.TurnFunc{
		"helper": func(_ context.Context, turn *pawl.Turn) (pawl.Completion, error) {
			said := turn.Assignment.GetTurn().GetMessages()[0].GetParts()[0].GetText()
			mu.Lock()
			executed[said]++
			mu.Unlock()
			helped.Add(1)
			return pawl.Completion{Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "found " + said}}}}, nil
		},
	}})
	defer stopHelper()
	var ids []string
	for range delegatingRuns {
		ids = append(ids, p.start())
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range delegationKills {
		play.AwaitCount(p.ctx, t, &helped, min(helped.Load()+1+rng.Int64N(5), delegatingRuns*delegationsEach))
		victim := []*sidecar{p.a, p.b}[rng.IntN(2)]
		victim.kill()
		victim.start()
	}
	for _, id := range ids {
		if run := p.end(p.a, id); run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			t.Errorf("run %s ended %v (%s)", id, run.GetStatus(), run.GetReason())
		}
	}
	tasks, err := p.b.runs().ListRuns(p.ctx, &pawlv1.ListRunsRequest{PageSize: 200})
	if err != nil || len(tasks.GetRuns()) != delegatingRuns*delegationsEach {
		t.Errorf("%d tasks for %d delegations, %v", len(tasks.GetRuns()), delegatingRuns*delegationsEach, err)
	}
	for _, task := range tasks.GetRuns() {
		if task.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			t.Errorf("task %s is %v", task.GetRunId(), task.GetStatus())
		}
	}
	mu.Lock()
	for said, n := range executed {
		if n != 1 {
			t.Errorf("%q was executed %d times", said, n)
		}
	}
	mu.Unlock()
	stopLead()
	stopHelper()
	p.check()
}

// leadTurn delegates and takes care that each result is the one of its question.
func leadTurn(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	view := turn.Assignment.GetTurn()
	if view.GetTerminal() {
		return pawl.Completion{}, nil
	}
	for i := range delegationsEach {
		said := fmt.Sprintf("%s/%d", turn.Assignment.GetLease().GetRunId(), i)
		result, err := turn.Step(ctx, fmt.Sprint(i), "helper", fmt.Sprintf(`{"message":%q}`, said))
		if err != nil {
			return pawl.Completion{}, err
		}
		var got struct{ Status, Output string }
		if err := json.Unmarshal([]byte(result), &got); err != nil || got.Output != "found "+said {
			return pawl.Completion{}, &pawl.Failure{Code: "WRONG_RESULT", Message: result}
		}
	}
	return pawl.Completion{Event: "Done"}, nil
}

// TestKillAtCancel: the agent's sidecar is away when a run that delegates is
// cancelled, and the run's own is killed before the word could arrive: the task
// is cancelled all the same.
func TestKillAtCancel(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"the agent's sidecar is away": false, "both are": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			stop := startWorker(p.ctx, t, p.a, pawl.WorkerConfig{ID: "lead", Turns: 1, Prompts: map[string]pawl.TurnFunc{"lead": leadTurn}})
			defer stop()
			run := p.start()
			task := p.delegated(run)
			p.b.kill()
			if _, err := p.a.runs().CancelRun(p.ctx, &pawlv1.CancelRunRequest{RunId: run}); err != nil {
				t.Fatal(err)
			}
			if killed {
				p.a.kill()
				p.a.start()
			}
			p.b.start()
			if got := p.end(p.b, task); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
				t.Errorf("the task ended %v (%s)", got.GetStatus(), got.GetReason())
			}
			stop()
			p.check()
		})
	}
}

// delegated waits until a run knows its agent's task.
func (p *pair) delegated(run string) (task string) {
	p.a.t.Helper()
	stream, err := p.a.runs().StreamTransitions(p.ctx, &pawlv1.StreamTransitionsRequest{
		RunId: run, Follow: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DELEGATED},
	})
	for err == nil {
		var got *pawlv1.StreamTransitionsResponse
		if got, err = stream.Recv(); got.GetRecord().GetStepDelegated().GetRemote().GetTaskId() != "" {
			return got.GetRecord().GetStepDelegated().GetRemote().GetTaskId()
		}
	}
	p.a.t.Fatalf("no task: %v", err)
	return ""
}
