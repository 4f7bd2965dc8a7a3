package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// servedRuns is how many runs one worker serves at most, and how many calls of them it has at once.
const servedRuns = 10_000

// chargesEach is how many calls each run makes at once.
const chargesEach = 2

// TestKillUnderServedRuns: a process serves as many runs as one stream takes, with as many calls at
// work as it has at once, when the sidecar is killed: the registration that names them all is taken, no
// call is made again, and those that waited are made.
func TestKillUnderServedRuns(t *testing.T) {
	t.Parallel()
	n := scaleCrowd(servedRuns)
	s := newSidecar(t, "--allow-tool", "*")
	s.start()
	ctx := deadline(t, 5*patience)
	if _, err := pawlv1.NewPackServiceClient(s.dial()).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(charges), Filename: "charges.yaml"}); err != nil {
		t.Fatal(err)
	}
	var charged atomic.Int64
	goOn := make(chan struct{})
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: s.dial(), ID: "program", Retry: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	defer running.Wait()
	defer end()
	runs := s.runs()
	var serving sync.WaitGroup
	atOnce(n, func(i int) {
		started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "charges", Execution: pawlv1.Execution_EXECUTION_CALLER})
		if err != nil {
			t.Errorf("run %d: %v", i, err)
			return
		}
		serving.Go(func() {
			ended, err := w.Serve(ctx, started.GetRun().GetRunId(), pawl.Serving{Turn: chargeTurn, Tools: map[string]pawl.ToolFunc{
				"charge": func(context.Context, *pawl.Step) (json.RawMessage, error) {
					charged.Add(1)
					<-goOn
					return json.RawMessage(`"paid"`), nil
				},
			}})
			if err != nil || !ended {
				t.Errorf("run %d: ended %t, %v", i, ended, err)
			}
		})
	})
	eventually(t, "all tools are at work", func() bool { return charged.Load() >= int64(min(n*chargesEach, servedRuns)) })
	s.kill()
	s.start()
	close(goOn)
	serving.Wait()
	if charged.Load() != int64(n*chargesEach) {
		t.Errorf("%d calls in %d runs", charged.Load(), n)
	}
}

// chargeTurn makes all calls of a run at once.
func chargeTurn(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	if turn.Assignment.GetTurn().GetTerminal() {
		return pawl.Completion{}, nil
	}
	errs := make([]error, chargesEach)
	var calls sync.WaitGroup
	for i := range chargesEach {
		calls.Go(func() { _, errs[i] = turn.Step(ctx, strconv.Itoa(i), "charge", "{}") })
	}
	calls.Wait()
	return pawl.Completion{Event: "Done"}, errors.Join(errs...)
}
