package pack

import "testing"

// TestYoungerRulesTakeNoPackBack: what was registered before a rule was there is still
// loaded, with a warning, since runs depend on it.
func TestYoungerRulesTakeNoPackBack(t *testing.T) {
	t.Parallel()
	for code, change := range map[string]string{
		ruleBudgetKey:   `workflow.engine.budget.max_total_visit = 3`,
		"PPSCHEMA-enum": `metadata = {"governance":{"autonomy_level":"full"}}`,
		ruleToolSchema:  `tools.t.parameters = {"type":"object","properties":{},` + doublingSchema(24, "allOf")[1:],
		"PP0010-15": `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t","depends_on":["y"]},` +
			`{"id":"y","kind":"tool","tool":"t","depends_on":["x"]}],"reduce":{"strategy":"append","into":"o"}}]}`,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			src := changedPack(t, change)
			if p, found, err := Load(src, Options{}); err != nil || p != nil || !hasFinding(found, code, SeverityError) {
				t.Errorf("new: pack %v, %v\n%s", p, err, render(found))
			}
			if p, found, err := Load(src, Options{Accepted: true}); err != nil || p == nil || !hasFinding(found, code, SeverityWarning) {
				t.Errorf("accepted before: pack %v, %v\n%s", p, err, render(found))
			}
		})
	}
}

func TestRequireBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  string
		refused bool
	}{
		"guards":         {"", false},
		"budget alone":   {"workflow.states.s.max_visits = -\nworkflow.states.s.on_max_visits = -", false},
		"no guard":       {"workflow.states.s.max_visits = -\nworkflow.states.s.on_max_visits = -\nworkflow.engine.budget = {\"max_wall_time_sec\":60}", true},
		"without a loop": {"workflow.states.s.max_visits = -\nworkflow.states.s.on_max_visits = -\nworkflow.engine = -\nworkflow.states.s.on_event = {\"Go\":\"e\"}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, found, err := Load(changedPack(t, c.change), Options{RequireBounded: true})
			if err != nil || (p == nil) != c.refused || hasFinding(found, "PP0005-2", SeverityError) != c.refused {
				t.Errorf("refused %v, want %v: %v\n%s", p == nil, c.refused, err, render(found))
			}
		})
	}
}

func hasFinding(found []Diagnostic, code string, severity Severity) bool {
	for _, d := range found {
		if d.Code == code && d.Severity == severity {
			return true
		}
	}
	return false
}
