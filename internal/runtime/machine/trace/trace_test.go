package trace_test

import (
	"encoding/hex"
	"reflect"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		caller: true,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":     true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-new": true,
		caller + "-more": false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": false,
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331":    false,
		"": false, "00": false, "00---": false, "\x00": false,
	} {
		if _, ok := trace.Parse(text); ok != want {
			t.Errorf("%q: %v, want %v", text, ok, want)
		}
	}
	if c, _ := trace.Parse(caller); c.String() != caller || !c.Sampled {
		t.Errorf("written as %s", c)
	}
}

// TestPicked: the share is met, and who is in a small one is in each larger one.
func TestPicked(t *testing.T) {
	t.Parallel()
	n := 0
	for i := range 10_000 {
		run := "RUN" + string(rune('A'+i%26)) + hex.EncodeToString([]byte{byte(i >> 8), byte(i)})
		if trace.IsSampled(run, 0.1) {
			n++
			if !trace.IsSampled(run, 0.5) {
				t.Fatalf("run %s is among 10 %% and not among 50 %%", run)
			}
		}
		if trace.IsSampled(run, 0) || !trace.IsSampled(run, 1) {
			t.Fatalf("run %s is picked by 0 or not by 1", run)
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("%d of 10000 runs are picked, want about 1000", n)
	}
}

// records are a run with a retried step, a failed attempt, a redirect and what
// carries no span.
func records() []machine.Record {
	bodies := []machine.Body{
		&machine.Transition{To: "work", Visit: 1, Total: 1, Cause: machine.CauseEntry, Artifacts: []machine.ArtifactWrite{{Name: "n", Value: []byte("secret")}}},
		&machine.InputReceived{},
		&machine.StepRequested{Step: 1, Tool: "build", TurnSeq: 1, Attempt: 1, Payload: []byte(`"secret"`)},
		&machine.StepResolved{Step: 1, Tool: "build", Attempt: 1, Unknown: true, Next: 2},
		&machine.StepResolved{Step: 1, Tool: "build", Attempt: 2, OK: true, Result: []byte(`"secret"`)},
		&machine.StepRequested{Step: 2, Tool: "helper", TurnSeq: 1, Attempt: 1, Delegation: true},
		&machine.StepDelegated{Step: 2, Tool: "helper", Attempt: 1, Remote: machine.Remote{TaskID: "T", ContextID: "C"}},
		&machine.TurnFailed{TurnSeq: 1, Attempt: 1, Next: 2, Error: machine.Fault{Code: "a secret with spaces", Message: "secret"}},
		&machine.TurnCompleted{TurnSeq: 1, Attempt: 2, Event: "Go", Usage: machine.Usage{InputTokens: 5}, Output: []machine.Part{{Text: "secret"}}},
		&machine.StepCancelled{Step: 2, Tool: "helper"},
		&machine.Transition{From: "work", Event: "Go", To: "end", Visit: 1, Total: 2, Cause: machine.CauseMaxVisits, Redirects: []machine.Redirect{{State: "x", Guard: "max_visits:x"}}},
		&machine.Stopped{TurnSeq: 11, Attempt: 1},
		&machine.Paused{}, &machine.Resumed{},
		&machine.Ended{Status: machine.Failed, Reason: "turn_failed"},
	}
	out := make([]machine.Record, len(bodies))
	for i, b := range bodies {
		out[i] = machine.Record{Seq: uint64(i) + 1, At: int64(1000 + i), Body: b}
	}
	return out
}

func state() *machine.State {
	return &machine.State{RunID: "R", PackID: "p", CreatedAt: 1000, Labels: []machine.Label{{Key: trace.Label, Value: caller}}}
}

func fold(t *testing.T, change func(*machine.Record) machine.Record) []trace.Span {
	t.Helper()
	f, ok := trace.NewFold(state())
	if !ok {
		t.Fatal("no trace")
	}
	var spans []trace.Span
	for _, r := range records() {
		r = change(&r)
		spans = append(spans, f.Take(&r)...)
	}
	if !f.Done() {
		t.Error("the run has not ended")
	}
	return spans
}

func TestFold(t *testing.T) {
	t.Parallel()
	spans := fold(t, func(r *machine.Record) machine.Record { return *r })
	want := []string{
		"execute_tool build", "execute_tool build", "chat work", "chat work",
		"invoke_agent helper", "execute_tool helper", "visit work", "chat end", "visit end", "run p",
	}
	ids := map[trace.SpanID]trace.Span{}
	var names []string
	for _, s := range spans {
		names, ids[s.ID] = append(names, s.Name), s
	}
	if !reflect.DeepEqual(names, want) || len(ids) != len(spans) {
		t.Fatalf("spans %v with %d ids, want %v", names, len(ids), want)
	}
	if stopped := spans[7]; stopped.End != 1011 || !slices.Contains(stopped.Attrs, trace.Attr{Key: "pawl.outcome", Value: "stopped"}) {
		t.Errorf("the stopped turn ends at %d with %v", stopped.End, stopped.Attrs)
	}
	for _, s := range spans[:len(spans)-1] {
		if parent, ok := ids[s.Parent]; !ok || parent.Start > s.Start || s.Trace != spans[len(spans)-1].Trace {
			t.Errorf("span %q is below %x: %+v", s.Name, s.Parent, parent)
		}
	}
	if spans[2].Error != "_OTHER" || spans[0].Error != "unknown" || spans[len(spans)-1].Error != "turn_failed" {
		t.Errorf("errors: %q, %q, %q", spans[2].Error, spans[0].Error, spans[len(spans)-1].Error)
	}
	for what, told := range map[string]string{
		"turn":       trace.Turn(state(), 1, 2),
		"step":       trace.Step(state(), 1, 2),
		"delegation": trace.Delegation(state(), 2, 1),
	} {
		ctx, ok := trace.Parse(told)
		if _, known := ids[ctx.Span]; !ok || !known {
			t.Errorf("the context of the %s, %s, is no span", what, told)
		}
	}
}

// TestModelSpans: an attempt of a call of a model is a span of kind client, with the names of
// OpenTelemetry's conventions for GenAI, and nothing that was said.
func TestModelSpans(t *testing.T) {
	t.Parallel()
	bodies := []machine.Body{
		&machine.Transition{To: "work", Visit: 1, Total: 1, Cause: machine.CauseEntry},
		&machine.StepRequested{Step: 1, Key: "model/1", Tool: "gpt", TurnSeq: 1, Attempt: 1, Kind: machine.KindModel, Model: &machine.ModelRequest{Model: "gpt"}},
		&machine.StepResolved{Step: 1, Tool: "gpt", Attempt: 1, Next: 2, Kind: machine.KindModel, Error: machine.Fault{Code: "MODEL_429", Message: "secret"}, Usage: machine.Usage{InputTokens: 9}},
		&machine.StepResolved{Step: 1, Tool: "gpt", Attempt: 2, OK: true, Kind: machine.KindModel, Answer: &machine.ModelAnswer{
			Parts: []machine.Part{{Text: "secret"}}, Model: "gpt-5", ResponseID: "r1", Finish: "stop",
		}, Usage: machine.Usage{InputTokens: 12, CachedTokens: 8, OutputTokens: 5, ReasoningTokens: 2, CostMicro: 40}},
	}
	for what, change := range map[string]func(*machine.Record) machine.Record{"whole": func(r *machine.Record) machine.Record { return *r }, "slim": trace.Slim} {
		f, _ := trace.NewFold(state())
		var spans []trace.Span
		for i, body := range bodies {
			r := change(&machine.Record{Seq: uint64(i) + 1, At: int64(1000 + i), Body: body})
			spans = append(spans, f.Take(&r)...)
		}
		if len(spans) != 2 || spans[0].Name != "chat gpt" || spans[0].Kind != trace.Client || spans[0].Error != "MODEL_429" {
			t.Fatalf("%s: %+v", what, spans)
		}
		want := []trace.Attr{
			{Key: "pawl.run.id", Value: "R"}, {Key: "gen_ai.operation.name", Value: "chat"}, {Key: "gen_ai.request.model", Value: "gpt"},
			{Key: "pawl.step", Value: int64(1)}, {Key: "pawl.attempt", Value: int64(2)},
			{Key: "gen_ai.usage.input_tokens", Value: int64(12)}, {Key: "gen_ai.usage.output_tokens", Value: int64(5)},
			{Key: "gen_ai.usage.cache_read.input_tokens", Value: int64(8)}, {Key: "gen_ai.usage.reasoning.output_tokens", Value: int64(2)},
			{Key: "pawl.usage.cost_micro_usd", Value: int64(40)}, {Key: "gen_ai.response.model", Value: "gpt-5"},
			{Key: "gen_ai.response.id", Value: "r1"}, {Key: "gen_ai.response.finish_reasons", Value: []string{"stop"}},
			{Key: "pawl.outcome", Value: "ok"},
		}
		if !reflect.DeepEqual(spans[1].Attrs, want) || spans[1].Parent != spans[0].Parent {
			t.Errorf("%s:\n%v, want\n%v", what, spans[1].Attrs, want)
		}
	}
}

// TestSlim: what a tracer keeps of records makes the same spans, without a payload.
func TestSlim(t *testing.T) {
	t.Parallel()
	whole := fold(t, func(r *machine.Record) machine.Record { return *r })
	if slim := fold(t, trace.Slim); !reflect.DeepEqual(slim, whole) {
		t.Errorf("slim records make %v, whole ones %v", slim, whole)
	}
}

// TestForkLinks: a fork is a trace of its own with a link to the visit it was taken
// from.
func TestForkLinks(t *testing.T) {
	t.Parallel()
	source := state()
	source.Current, source.VisitSeq, source.Turn = "work", 1, &machine.Turn{Seq: 1, Attempt: 1}
	s := &machine.State{RunID: "F", PackID: "p", Labels: []machine.Label{{Key: trace.Label, Value: trace.Root("F").String()}}}
	f, _ := trace.NewFold(s)
	f.Take(&machine.Record{Seq: 1, At: 5, Body: &machine.Origin{RunID: "R", Seq: 3, State: source}})
	spans := f.Take(&machine.Record{Seq: 2, At: 6, Body: &machine.Ended{Status: machine.Cancelled, Reason: "cancelled"}})
	root := spans[len(spans)-1]
	if len(spans) != 3 || root.Parent != (trace.SpanID{}) || len(root.Links) != 1 || root.Trace != trace.Root("F").Trace {
		t.Fatalf("spans %+v", spans)
	}
	if want, _ := trace.Parse(caller); root.Links[0].Trace != want.Trace {
		t.Errorf("the link leads to %x", root.Links[0].Trace)
	}
}
