package grpcapi

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// counted is a [CallCounts] that tests read.
type counted struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *counted) Refused(method, reason string) { c.add(method + " " + reason) }
func (c *counted) Ignored(disposition string)    { c.add(disposition) }

func (c *counted) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]int{}
	}
	c.all[what]++
}

func (c *counted) countOf(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[what]
}

// TestRefusedAndIgnoredAreCounted: each is counted once, with no word of the caller.
func TestRefusedAndIgnoredAreCounted(t *testing.T) {
	t.Parallel()
	var counts counted
	var log syncBuffer
	r := newRig(t, withTokens, func(c *Config, _ *services.Config) {
		c.Counts, c.Log = &counts, slog.New(slog.NewTextHandler(&log, nil))
	})
	ctx := testContext(t)
	_, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: "01J99999999999999999999999"})
	wantError(t, err, codes.Unauthenticated, "TOKEN_MISSING")
	_, err = r.runs.GetRun(withToken(ctx, "admin"), &pawlv1.GetRunRequest{RunId: "nonsense-of-a-caller"})
	wantError(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	turn := r.start(withToken(ctx, "driver")).GetTurn()
	step := r.requestStep(withToken(ctx, "driver"), turn, "run_tests", `{"path":"x"}`)
	answer := func(run string, number uint32, value string) {
		t.Helper()
		if _, err := r.runs.ResolveStep(withToken(ctx, "admin"), &pawlv1.ResolveStepRequest{
			RunId: run, Step: number, Tool: "run_tests", Attempt: 1,
			Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: value},
		}); err != nil {
			t.Fatal(err)
		}
	}
	answer("01J99999999999999999999999", 1, "1")
	answer(turn.GetRunId(), step.GetStep(), `"said"`)
	answer(turn.GetRunId(), step.GetStep(), `"said"`)
	answer(turn.GetRunId(), step.GetStep(), `"otherwise"`)
	for _, what := range []string{
		"pawl.v1.RunService/GetRun TOKEN_MISSING", "unknown_run", "duplicate", "stale",
	} {
		if counts.countOf(what) != 1 {
			t.Errorf("%q counted %d times: %v", what, counts.countOf(what), counts.all)
		}
	}
	for _, line := range []string{
		`msg="call refused" method=pawl.v1.RunService/GetRun reason=TOKEN_MISSING`, `msg="step answer ignored" disposition=stale`,
	} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, log.String())
		}
	}
	for _, word := range []string{"nonsense", "otherwise", "duplicate"} {
		if strings.Contains(log.String(), word) {
			t.Errorf("the log has %q:\n%s", word, log.String())
		}
	}
}

// TestRefusedCallNamesItsCaller: the log line of a refused call has the principal and the reason, over gRPC, in a
// stream and for the metrics page. Without an authenticated caller it has no principal.
func TestRefusedCallNamesItsCaller(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	r := newRig(t, withTokens, func(c *Config, _ *services.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	ctx := testContext(t)
	const reason = "SCOPE_MISSING"
	_, err := r.runs.StartRun(withToken(ctx, "runs:read"), &pawlv1.StartRunRequest{Pack: "p"})
	wantError(t, err, codes.PermissionDenied, reason)
	stream, err := pawlv1.NewWorkerServiceClient(r.conn).Work(withToken(ctx, "runs:read"))
	if err == nil {
		_, err = stream.Recv()
	}
	wantError(t, err, codes.PermissionDenied, reason)
	_, err = r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: "01J99999999999999999999999"})
	wantError(t, err, codes.Unauthenticated, "TOKEN_MISSING")
	for _, line := range []string{
		`msg="call refused" method=pawl.v1.RunService/StartRun reason=SCOPE_MISSING principal=runs:read` + "\n",
		`msg="call refused" method=pawl.v1.WorkerService/Work reason=SCOPE_MISSING principal=runs:read` + "\n",
		`msg="call refused" method=pawl.v1.RunService/GetRun reason=TOKEN_MISSING` + "\n",
	} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, log.String())
		}
	}
}

// TestRefusalsDoNotFloodTheLog: the log grows with time, not with what callers do.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	var counts counted
	var log syncBuffer
	r := newRig(t, withTokens, func(c *Config, _ *services.Config) {
		c.Counts, c.Log = &counts, slog.New(slog.NewTextHandler(&log, nil))
	})
	r.server.edge.metrics.Lines.SetLimit(0)
	ctx := testContext(t)
	for range 3 * logBurst {
		_, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: "01J99999999999999999999999"})
		wantError(t, err, codes.Unauthenticated, "TOKEN_MISSING")
	}
	if n := strings.Count(log.String(), "call refused"); n != logBurst {
		t.Errorf("%d lines, want %d", n, logBurst)
	}
	if n := counts.countOf("pawl.v1.RunService/GetRun TOKEN_MISSING"); n != 3*logBurst {
		t.Errorf("%d counted", n)
	}
	r.server.edge.metrics.Lines.SetBurst(logBurst)
	r.server.edge.metrics.Lines.SetLimit(1e9)
	if _, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{}); err == nil || !strings.Contains(log.String(), "left_out=") {
		t.Errorf("the next line does not say how many were left out: %v\n%s", err, log.String())
	}
}
