package pack

import (
	"fmt"
	"strings"
	"testing"
)

func manyEvals(n int, trigger string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"id":"e%d","type":"json_valid","trigger":%q}`, i, trigger))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// TestEvalsAreBounded: a prompt with a thousand evals is refused with the place of the first one that is too many. A pack that was accepted
// before is not refused, and keeps the first ones.
func TestEvalsAreBounded(t *testing.T) {
	t.Parallel()
	src := changedPack(t, "prompts.a.evals = "+manyEvals(1000, "every_turn"))
	p, ds, err := Load(src, Options{})
	if err != nil || p != nil || len(ds) != 1 || ds[0].Code != ruleEval || ds[0].Pointer != "/prompts/a/evals/100" {
		t.Errorf("%v %v\n%s", p, err, render(ds))
	}
	if p, _, err = Load(src, Options{Accepted: true}); err != nil || len(p.Evals("a", EveryTurn)) != maxEvals {
		t.Errorf("%v %v", p, err)
	}
	p, ds, err = Load(changedPack(t, "evals = "+manyEvals(100, "on_session_complete")+"\nprompts.a.evals = "+manyEvals(100, "sample_sessions")+
		"\nprompts.b.evals = "+manyEvals(1, "sample_sessions")), Options{})
	if err != nil || p != nil || len(ds) != 1 || ds[0].Pointer != "/prompts/b/evals/0" {
		t.Errorf("%v %v\n%s", p, err, render(ds))
	}
}

// TestEvalsOfAPrompt: an eval of a prompt replaces the one of the pack with the same id, also if it is off or does not run.
func TestEvalsOfAPrompt(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, changedPack(t, `evals = [{"id":"x","type":"json_valid","trigger":"every_turn"},{"id":"y","type":"json_valid","trigger":"every_turn"},{"id":"z","type":"json_valid","trigger":"on_session_complete"}]
prompts.a.evals = [{"id":"y","type":"min_length","trigger":"sample_turns","params":{"min":1}},{"id":"x","type":"llm_judge","trigger":"every_turn"},{"id":"z","type":"json_valid","trigger":"every_turn","enabled":false}]`))
	ids := func(list []ScoredEval) (out []string) {
		for i := range list {
			out = append(out, fmt.Sprintf("%s %s %v", list[i].ID, list[i].Type, list[i].Sample))
		}
		return out
	}
	for name, list := range map[string][]string{
		"[y min_length 5]":                    ids(p.Evals("a", EveryTurn, SampleTurns)),
		"[x json_valid 100 y json_valid 100]": ids(p.Evals("b", EveryTurn, SampleTurns)),
		"[z json_valid 100]":                  ids(p.EndEvals([]string{"b"})),
		"[]":                                  ids(p.EndEvals([]string{"b", "a", "b"})),
	} {
		if fmt.Sprint(list) != name {
			t.Errorf("%v, want %s", list, name)
		}
	}
}

// TestALongIDReplaces: the id of an eval is clipped in results, and a prompt's eval with a longer id replaces that of the pack.
func TestALongIDReplaces(t *testing.T) {
	t.Parallel()
	long := fmt.Sprintf(`[{"id":%q,"type":"json_valid","trigger":"every_turn"}]`, strings.Repeat("x", 300))
	p := mustLoad(t, changedPack(t, "evals = "+long+"\nprompts.a.evals = "+long))
	if got := p.Evals("a", EveryTurn); len(got) != 1 || got[0].Prompt != "a" {
		t.Errorf("%d evals", len(got))
	}
}

// TestThresholds: each operator compares the score with the value.
func TestThresholds(t *testing.T) {
	t.Parallel()
	for operator, want := range map[string][3]bool{
		"gte": {false, true, true}, "gt": {false, false, true}, "lte": {true, true, false}, "lt": {true, false, false}, "eq": {false, true, false},
	} {
		value := 0.5
		th := &Threshold{Operator: operator, Value: &value}
		if got := [3]bool{th.Passes(0.4), th.Passes(0.5), th.Passes(0.6)}; got != want {
			t.Errorf("%s: %v", operator, got)
		}
	}
	if none := (*Threshold)(nil); none.Passes(0.99) || !none.Passes(1) || none.String() != "" {
		t.Error("without a threshold the score has to be full")
	}
}
