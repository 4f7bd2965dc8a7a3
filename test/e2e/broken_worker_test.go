package e2e

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestWhichWorkerIsBroken has one of two workers fail five turns: the list of workers marks this one, and its
// description says what failed last. The log names the worker for each failure.
func TestWhichWorkerIsBroken(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--pack", "testdata/count.json")
	s.start()
	ctx := deadline(t, 2*time.Minute)
	start := func(n int) {
		for range n {
			if _, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS}); err != nil {
				t.Fatal(err)
			}
		}
	}
	start(6)
	failed := 0
	stopBad := startWorker(ctx, t, s, pawl.WorkerConfig{ID: "bad", Prompts: map[string]pawl.TurnFunc{
		"*": func(ctx context.Context, _ *pawl.Turn) (pawl.Completion, error) {
			if failed++; failed > 5 {
				<-ctx.Done()
			}
			return pawl.Completion{}, errors.New("no route to the model")
		},
	}})
	defer stopBad()
	listed := func(pattern string) func() bool {
		return func() bool {
			return regexp.MustCompile(pattern).MatchString(workersCommand(t, s, "list"))
		}
	}
	eventually(t, "the list counts the failures", listed(`(?m)^bad .* 5 of 6 .* connected *$`))
	start(1)
	stopGood := startWorker(ctx, t, s, pawl.WorkerConfig{ID: "good", Prompts: map[string]pawl.TurnFunc{
		"*": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
			if turn.Assignment.GetTurn().GetTurn().GetVisit() > 5 {
				<-ctx.Done()
			}
			return pawl.Completion{Event: "More"}, nil
		},
	}})
	defer stopGood()
	eventually(t, "the list marks the worker", listed(`(?m)^bad .* 5 of 6 .* connected, failing more than peers *$`))
	if !listed(`(?m)^good .* 0 of \d+ .* connected *$`)() {
		t.Error("the other worker is not listed as one without failures")
	}
	shown := workersCommand(t, s, "show", "bad")
	for _, want := range []string{`turn counts +6 taken, 5 failed, 0 lost`, `last failure +\S+ prompt counter failed in run \S+, attempt \d: HANDLER_ERROR: no route to the model`} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	stopBad()
	stopGood()
	s.stop()
	if n := strings.Count(s.stderr.String(), "worker_id=bad namespace=default"); n < 5 {
		t.Errorf("%d lines name the worker:\n%s", n, s.stderr.String())
	}
}

// workersCommand returns the output of a command about workers.
func workersCommand(t *testing.T, s *sidecar, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary(t), append([]string{"workers", "--addr", "unix:" + s.socket}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
