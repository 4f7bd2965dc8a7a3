package server

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const pricedPack = `{"id":"priced","name":"Priced","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
"prompts":{"a":{"id":"a","name":"A","version":"1.0.0","system_template":"x","model_overrides":{"theirs":{"system_template":"y"}}}},
"workflow":{"version":1,"entry":"s","states":{"s":{"prompt_task":"a","on_event":{"Again":"s","Go":"e"}},"e":{"prompt_task":"a","terminal":true}},
"engine":{"x_pawl":{"max_cost_usd":0.001,"prices":{"packs":{"input":1,"output":2}}}}}}`

func unpriced(t *testing.T, err error, field string) {
	t.Helper()
	var info *errdetails.ErrorInfo
	for _, detail := range status.Convert(err).Details() {
		if d, ok := detail.(*errdetails.ErrorInfo); ok {
			info = d
		}
	}
	if status.Code(err) != codes.FailedPrecondition || info.GetReason() != "MODEL_UNPRICED" || info.GetMetadata()["field"] != field {
		t.Errorf("got %v with %v", err, info)
	}
	for _, word := range []string{"x_pawl.prices", "--prices"} {
		if !strings.Contains(status.Convert(err).Message(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}

// TestPrices: a run with a budget of cost begins once each model that it is written for has
// a price, the pack's or the operator's; a file that is read again counts for what comes
// then, a faulty one never, and what was counted stays after a restart.
func TestPrices(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.Packs, c.Prices = []string{packWith(t, pricedPack)}, writeFile(t, "prices.yaml", "other: {input: 1, output: 1}\n")
	s := serve(t, c)
	runs := pawlv1.NewRunServiceClient(dial(t, s.ready.GRPC))
	begin := func() (*pawlv1.StartRunResponse, error) {
		return runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "priced", Execution: pawlv1.Execution_EXECUTION_CALLER})
	}
	rewrite := func(text string) {
		if err := errors.Join(os.WriteFile(c.Prices+".new", []byte(text), 0o600), os.Rename(c.Prices+".new", c.Prices)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	_, err := begin()
	unpriced(t, err, "prompts.a.model_overrides")
	if !strings.Contains(err.Error(), `"theirs"`) {
		t.Errorf("%v does not name the model", err)
	}
	rewrite("theirs: {input: 3, output: 4, outptu: 1}\n")
	rewrite("theirs: {input: 3, cached: 0.3, output: 4}\n")
	got, err := begin()
	for err != nil {
		unpriced(t, err, "prompts.a.model_overrides")
		got, err = begin()
	}
	run, turn := got.GetRun().GetRunId(), got.GetTurn()
	end := func(event string, u *pawlv1.Usage) (*pawlv1.CompleteTurnResponse, error) {
		done, err := runs.CompleteTurn(t.Context(), &pawlv1.CompleteTurnRequest{
			RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Event: event, Usage: u,
		})
		if done.GetTurn() != nil {
			turn = done.GetTurn()
		}
		return done, err
	}
	_, err = end("Again", &pawlv1.Usage{InputTokens: 1, Model: "unknown"})
	unpriced(t, err, "usage.model")
	_, err = end("Again", &pawlv1.Usage{InputTokens: 1})
	unpriced(t, err, "usage.model")
	if _, err = end("Again", &pawlv1.Usage{InputTokens: 100, CachedTokens: 50, OutputTokens: 1, Model: "theirs", CostMicroUsd: 999}); err != nil {
		t.Fatal(err)
	}
	cost := func(want int64) {
		t.Helper()
		if got, err := runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: run}); err != nil || got.GetRun().GetCostMicroUsd() != want {
			t.Errorf("the run cost %d, want %d: %v", got.GetRun().GetCostMicroUsd(), want, err)
		}
	}
	cost(150 + 15 + 4)
	rewrite("theirs: {input: 5, output: 5}\n")
	for _, model := range []string{"packs", "theirs"} {
		if _, err = end("Again", &pawlv1.Usage{InputTokens: 1, Model: model}); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	c.Prices = ""
	s = serveToEnd(t, c)
	runs = pawlv1.NewRunServiceClient(dial(t, s.ready.GRPC))
	if got, err := runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: run}); err != nil || got.GetRun().GetCostMicroUsd() < 169+1+3 {
		t.Errorf("the run cost %v: %v", got.GetRun().GetCostMicroUsd(), err)
	}
	if verified, err := runs.VerifyRun(t.Context(), &pawlv1.VerifyRunRequest{RunId: run}); err != nil || !verified.GetOk() {
		t.Errorf("the run replays as %v: %v", verified, err)
	}
}

// TestFaultyReloadSaysSo: what was in force stays, and the log names the fault.
func TestFaultyReloadSaysSo(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.Prices = writeFile(t, "prices.yaml", "m: {input: 1, output: 1}\n")
	_, log := serveLogged(t, c)
	if err := os.WriteFile(c.Prices, []byte("m: {input: -1, output: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	log.await(t, "reload failed")
	for _, word := range []string{"m.input", "is -1, want a number", "reload failed, previous settings kept"} {
		if !strings.Contains(log.String(), word) {
			t.Errorf("the log does not say %q", word)
		}
	}
}
