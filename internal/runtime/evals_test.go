package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// evalPack is a pack of three states whose evals are given. Two of them have the prompt ask.
func evalPack(packEvals, promptEvals string) string {
	return fmt.Sprintf(`{
  "id": "judged", "name": "Judged", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "evals": [%s],
  "tools": {"look": {"name": "look", "description": "Look"}},
  "prompts": {
    "ask": {"id": "ask", "name": "Ask", "version": "1.0.0", "system_template": "Ask.", "tools": ["look"], "evals": [%s]},
    "end": {"id": "end", "name": "End", "version": "1.0.0", "system_template": "End."}
  },
  "workflow": {"version": 2, "entry": "ask", "states": {
    "ask": {"prompt_task": "ask", "max_visits": 1, "on_event": {"Done": "end", "Next": "mid", "Again": "ask"}},
    "mid": {"prompt_task": "ask", "on_event": {"Done": "end"}},
    "end": {"prompt_task": "end", "terminal": true}
  }}
}`, packEvals, promptEvals)
}

func eval(id, typ, trigger, more string) string {
	return fmt.Sprintf(`{"id": %q, "type": %q, "trigger": %q%s}`, id, typ, trigger, more)
}

// judgedRun is a run of evalPack.
type judgedRun struct {
	*rig
	run, token string
}

func startJudged(t *testing.T, packEvals, promptEvals string, options ...option) *judgedRun {
	t.Helper()
	r := newRig(t, options...)
	r.register("", evalPack(packEvals, promptEvals))
	started := r.startWith(runtime.StartRequest{Call: runtime.Call{Principal: everyone}, Pack: "judged", Execution: machine.Caller, RequestID: "r"})
	return &judgedRun{r, started.RunID, started.Turn.Token}
}

func (j *judgedRun) apply(cmd machine.Command) runtime.Answer {
	j.t.Helper()
	answer, err := j.Apply(context.Background(), runtime.Request{RunRef: ref(j.run, everyone), TurnToken: j.token, Command: cmd})
	if err != nil {
		j.t.Fatal(err)
	}
	if answer.Turn != nil {
		j.token = answer.Turn.Token
	}
	return answer
}

func (j *judgedRun) complete(text, event string) runtime.Answer {
	j.t.Helper()
	return j.apply(machine.CompleteTurn{Output: []machine.Part{{Kind: machine.PartText, Text: text}}, Event: event})
}

// results returns the recorded results, one line each, with the seq of their record.
func (j *judgedRun) results() []string {
	j.t.Helper()
	entries, err := j.store.Entries(context.Background(), 0, j.run, 1, machine.Page{Records: 1000, Bytes: 1 << 20})
	if err != nil {
		j.t.Fatal(err)
	}
	var out []string
	for i := range entries {
		for _, r := range entries[i].Records {
			body, ok := r.Body.(*machine.Evaluated)
			if !ok {
				continue
			}
			if len(entries[i].Records) == 1 {
				j.t.Errorf("record %d is alone in its commit: what do the evals judge?", r.Seq)
			}
			for _, e := range body.Results {
				out = append(out, fmt.Sprintf("%d: %s %s turn %d visit %d score %d %v%s%s", r.Seq, e.ID, e.Trigger, e.TurnSeq, e.VisitSeq, e.Score, e.Passed, prefixed(", ", e.Explanation), prefixed(" error: ", e.Error)))
			}
		}
	}
	return out
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (j *judgedRun) want(lines ...string) {
	j.t.Helper()
	if got := j.results(); strings.Join(got, "\n") != strings.Join(lines, "\n") {
		j.t.Errorf("results\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

const words = `, "params": {"patterns": ["order", "thanks"]}`

// TestEvalsOfEachTrigger: the results stand in the commit of what they judge, behind it, and before the end of the run.
func TestEvalsOfEachTrigger(t *testing.T) {
	t.Parallel()
	j := startJudged(
		t,
		eval("turn", "contains", "every_turn", words+`, "threshold": {"operator": "gte", "value": 0.5}`)+","+
			eval("session", "content_excludes", "on_session_complete", `, "params": {"patterns": ["refund"]}`)+","+
			eval("talk", "max_length", "on_conversation_complete", `, "message": "Be brief", "params": {"max": 2}`)+","+
			eval("all", "contains_any", "sample_sessions", `, "sample_percentage": 100, "params": {"patterns": ["refund"]}`)+","+
			eval("none", "contains_any", "sample_turns", `, "sample_percentage": 0, "params": {"patterns": ["refund"]}`)+","+
			eval("off", "contains", "every_turn", words+`, "enabled": false`)+","+
			eval("replaced", "contains", "every_turn", words),
		eval("step", "contains_any", "on_workflow_step", words)+","+eval("replaced", "min_length", "every_turn", `, "params": {"min": 1}`),
	)
	j.complete("Your order: no refund.", "")
	j.apply(machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: "So?"}}})
	j.complete("Thanks", "Done")
	j.complete("Bye", "")
	j.want(
		`3: turn every_turn turn 1 visit 0 score 500000 true, the text does not contain "thanks" (output)`,
		`3: replaced every_turn turn 1 visit 0 score 1000000 true`,
		`8: turn every_turn turn 5 visit 0 score 500000 true, the text does not contain "order" (output)`,
		`8: replaced every_turn turn 5 visit 0 score 1000000 true`,
		`8: step on_workflow_step turn 0 visit 1 score 1000000 true`,
		`10: turn every_turn turn 7 visit 0 score 0 false, the text does not contain "order", "thanks" (output)`,
		`10: replaced every_turn turn 7 visit 0 score 0 false, the text does not contain "order", "thanks" (output)`,
		`10: session on_session_complete turn 0 visit 0 score 0 false, the text contains "refund", which is not allowed (output of turn 1, characters 16 to 21)`,
		`10: talk on_conversation_complete turn 0 visit 0 score 666667 false, Be brief: the text has 3 characters; at most 2 (output)`,
		`10: all sample_sessions turn 0 visit 0 score 1000000 true`,
	)
}

// TestEvalsOfCalls: preconditions and the checks of calls read the calls of what is judged.
func TestEvalsOfCalls(t *testing.T) {
	t.Parallel()
	j := startJudged(
		t, "",
		eval("called", "tools_called", "every_turn", `, "params": {"tools": ["look"]}`)+","+
			eval("when", "contains", "every_turn", words+`, "when": {"tool_called": "look"}`)+","+
			eval("like", "contains", "every_turn", words+`, "when": {"tool_called_pattern": "^lo", "any_tool_called": true}`)+","+
			eval("many", "contains", "every_turn", words+`, "when": {"min_tool_calls": 2}`)+","+
			eval("late", "latency_budget", "every_turn", `, "params": {"max_ms": 500}`)+","+
			eval("run", "tools_not_called", "on_session_complete", `, "params": {"tools": ["look"]}`)+","+
			eval("slow", "latency_budget", "on_session_complete", `, "params": {"max_ms": 500}`),
	)
	j.complete("Hm", "")
	j.apply(machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: "Look!"}}})
	step := j.apply(machine.RequestSteps{Requests: []machine.StepRequest{{Key: "k", Tool: "look", Payload: []byte(`{}`)}}})
	j.clock.Advance(1000 * 1000 * 1000)
	j.apply(machine.ResolveStep{Step: step.State.Steps[0].Step, Tool: "look", Attempt: 1, OK: true, Result: []byte(`{}`)})
	j.complete("order, thanks", "Done")
	j.apply(machine.Cancel{})
	j.want(
		`3: called every_turn turn 1 visit 0 score 0 false, the tool "look" was called 0 times; at least 1`,
		`3: late every_turn turn 1 visit 0 score 1000000 true`,
		`10: called every_turn turn 5 visit 0 score 1000000 true`,
		`10: when every_turn turn 5 visit 0 score 1000000 true`,
		`10: like every_turn turn 5 visit 0 score 1000000 true`,
		`10: late every_turn turn 5 visit 0 score 500000 false, it took 1000 ms; at most 500 ms`,
		`11: run on_session_complete turn 0 visit 0 score 0 false, the tool "look" was called, which is not allowed`,
		`11: slow on_session_complete turn 0 visit 0 score 500000 false, it took 1000 ms; at most 500 ms`,
	)
}

// TestEvalsDoNotFailARun: texts that are too large are an error of the result, and the run goes on.
func TestEvalsDoNotFailARun(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 100 {
		list = append(list, eval(fmt.Sprint("e", i), "regex", "every_turn", `, "params": {"pattern": "(a|b|ab)*c{1,20}$"}`))
	}
	j := startJudged(t, strings.Join(list, ","), "")
	j.complete(strings.Repeat("ab", 20_000), "")
	got := j.results()
	if len(got) != 100 || !strings.Contains(got[99], "error: the text is too large") || !strings.Contains(got[0], "score 0 false, the text does not match") {
		t.Errorf("%d results: %s ... %s", len(got), got[0], got[len(got)-1])
	}
}

// TestNoEvalIsLostOrDoubled kills the process before, while and after the turn's commit is stored. The repeat, or the next completion, leaves
// one result for the turn and one for the run.
func TestNoEvalIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	for stop, crash := range map[string]func(r *rig, send func() error) error{
		"before the commit": func(r *rig, send func() error) error {
			r.store.FailCommits(func(*machine.Batch) testkit.Fault { return testkit.Fault{Err: machine.ErrIndeterminate} })
			return send()
		},
		"in a group that is not synced": crashHeld,
		"after the sync, before the answer": func(r *rig, send func() error) error {
			r.store.FailCommits(func(*machine.Batch) testkit.Fault { return testkit.Fault{Err: machine.ErrIndeterminate, Stored: true} })
			return send()
		},
		"after the answer": func(r *rig, send func() error) error {
			err := send()
			r.store.Crash()
			return err
		},
	} {
		t.Run(stop, func(t *testing.T) {
			t.Parallel()
			j := startJudged(t, eval("turn", "contains", "every_turn", words)+","+eval("run", "min_length", "on_session_complete", `, "params": {"min": 1}`), "")
			j.complete("Order it, thanks", "Done")
			send := func() error {
				_, err := j.Apply(context.Background(), runtime.Request{
					RunRef: ref(j.run, everyone), TurnToken: j.token, Command: machine.CompleteTurn{Output: []machine.Part{{Kind: machine.PartText, Text: "Bye"}}},
				})
				return err
			}
			if err := crash(j.rig, send); err != nil {
				wantReason(t, err, "COMMIT_UNKNOWN")
			}
			j.restart()
			if !j.view(j.run).State.Status.Terminal() {
				turn, err := j.GetTurn(context.Background(), ref(j.run, everyone))
				if err != nil {
					t.Fatal(err)
				}
				j.token = turn.Token
			}
			_ = send()
			j.want(
				`4: turn every_turn turn 1 visit 0 score 1000000 true`,
				`6: turn every_turn turn 3 visit 0 score 0 false, the text does not contain "order", "thanks" (output)`,
				`6: run on_session_complete turn 0 visit 0 score 1000000 true`,
			)
		})
	}
}

// hookedStore is a store with hooks before the engine reads entries.
type hookedStore struct {
	runtime.Store
	before func() error
	page   func(*machine.Page)
}

func (s *hookedStore) Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error) {
	if s.page != nil {
		s.page(&page)
	}
	if s.before != nil {
		if err := s.before(); err != nil {
			return nil, err
		}
	}
	return s.Store.Entries(ctx, ns, run, from, page)
}

func (s *hookedStore) Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error) {
	if s.before != nil {
		if err := s.before(); err != nil {
			return machine.Entry{}, err
		}
	}
	return s.Store.Entry(ctx, ns, run, seq)
}

// around makes the engine use the hooks.
func (s *hookedStore) around(c *services.Config) { s.Store, c.Store = c.Store, s }

// TestEvalsOfAVisit: the output with which the run entered a state belongs to the visit before.
func TestEvalsOfAVisit(t *testing.T) {
	t.Parallel()
	j := startJudged(t, "", eval("step", "content_excludes", "on_workflow_step", `, "params": {"patterns": ["refund"]}`))
	j.complete("A refund.", "Next")
	j.complete("Bye", "Done")
	j.want(
		`4: step on_workflow_step turn 0 visit 1 score 0 false, the text contains "refund", which is not allowed (output of turn 1, characters 3 to 8)`,
		`7: step on_workflow_step turn 0 visit 3 score 1000000 true`,
	)
}

// TestEvalsOfATurnThatEndsTheRun: a turn that ends by an event is judged also if a guard of the state ends the run.
func TestEvalsOfATurnThatEndsTheRun(t *testing.T) {
	t.Parallel()
	j := startJudged(t, "", eval("turn", "tools_called", "every_turn", `, "params": {"tools": ["look"]}`))
	j.apply(machine.EmitEvent{Event: "Again"})
	j.want(`2: turn every_turn turn 1 visit 0 score 0 false, the tool "look" was called 0 times; at least 1`)
}

// TestEvalsOfTheCommittedResult: an account of the operator has too little for a model call, so the run would end. While the evals of the end
// run, the account gets more, and the run goes on. Nothing is recorded of an end that did not happen.
func TestEvalsOfTheCommittedResult(t *testing.T) {
	t.Parallel()
	table := func(tokens int64) *budget.Table {
		table, err := budget.NewTable([]budget.Account{{Window: budget.Ever, MaxTokens: tokens}})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	accounts, reads := budget.New(table(5), nil), &hookedStore{}
	j := startJudged(
		t, eval("session", "tools_called", "on_session_complete", `, "params": {"tools": ["look"]}`), "",
		reads.around, func(c *services.Config) { c.Accounts = accounts },
	)
	raised := false
	reads.before = func() error {
		raised = true
		accounts.Replace(table(1000))
		return nil
	}
	answer := j.apply(machine.RequestModel{Round: 1, Model: &machine.ModelRequest{Model: "m"}, Bound: machine.Usage{InputTokens: 10, OutputTokens: 10}})
	if !raised || answer.State.Status.Terminal() {
		t.Fatalf("the account was raised: %v; the run is %v", raised, answer.State.Status)
	}
	j.want()
}

// TestEvalsThatCannotRead: the time of a turn needs its first record, and only latency_budget needs the time. A run with too many records is not
// judged.
func TestEvalsThatCannotRead(t *testing.T) {
	t.Parallel()
	reads := &hookedStore{page: func(p *machine.Page) { p.Records = 1 }}
	j := startJudged(
		t, eval("turn", "min_length", "every_turn", `, "params": {"min": 1}`)+","+eval("late", "latency_budget", "every_turn", `, "params": {"max_ms": 500}`)+","+
			eval("run", "min_length", "on_session_complete", `, "params": {"min": 1}`),
		"", reads.around,
	)
	reads.before = func() error { return errors.New("no disk") }
	j.complete("Hm", "")
	reads.before = nil
	for range 64 {
		j.apply(machine.Pause{})
		j.apply(machine.Resume{})
	}
	j.apply(machine.Cancel{})
	j.want(
		`3: turn every_turn turn 1 visit 0 score 1000000 true`,
		`3: late every_turn turn 1 visit 0 score 0 false error: the record that opened the turn could not be read`,
		`132: run on_session_complete turn 0 visit 0 score 0 false error: there are too many records to judge: more than 64 pages`,
	)
}

// TestScoresOfEvals: a schema that needs too much work is an error, passed compares the recorded score, and a message stands alone if the score
// is full.
func TestScoresOfEvals(t *testing.T) {
	t.Parallel()
	j := startJudged(
		t, eval("costly", "json_schema", "every_turn", `, "params": {"schema": {"items": {"type": "integer"}}}`)+","+
			eval("rounded", "contains", "every_turn", `, "params": {"patterns": ["1", "no", "none"]}, "threshold": {"operator": "gt", "value": 0.333333}`)+","+
			eval("low", "contains", "every_turn", `, "message": "Say less", "params": {"patterns": ["1"]}, "threshold": {"operator": "lt", "value": 0.5}`),
		"",
	)
	j.complete("["+strings.Repeat("1,", 2000)+"1]", "")
	j.want(
		`3: costly every_turn turn 1 visit 0 score 0 false error: checking the JSON value takes more than 1000 applications of the schema`,
		`3: rounded every_turn turn 1 visit 0 score 333333 false, the text does not contain "no", "none" (output)`,
		`3: low every_turn turn 1 visit 0 score 1000000 false, Say less`,
	)
}
