package pack

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// varPack has two prompts in the workflow and one agent outside it.
func varPack(t *testing.T) *Pack {
	t.Helper()
	p, ds, err := Load(changedPack(t, `
prompts.a.variables = [{"name":"v","type":"string","required":true,"validation":{"min_length":2,"max_length":4,"pattern":"^[a-zé]+$"}},{"name":"n","type":"number","required":false,"default":3,"validation":{"minimum":1,"maximum":9}},{"name":"mode","type":"string","required":false,"validation":{"enum":["x","y"]}}]
prompts.b.variables = [{"name":"v","type":"string","required":false,"validation":{"enum":["abc","été"]}},{"name":"list","type":"array","required":false},{"name":"obj","type":"object","required":false,"validation":{"enum":[{"k":1}]}},{"name":"flag","type":"boolean","required":false,"default":false}]
prompts.b.system_template = "{{used}}"
prompts.c = {"id":"c","name":"C","version":"1.0.0","system_template":"x","variables":[{"name":"own","type":"string","required":true}]}
agents = {"entry":"c","members":{"c":{},"b":{"state":"e"}}}`), Options{})
	if p == nil {
		t.Fatalf("%v\n%s", err, render(ds))
	}
	return p
}

func TestCheckVariables(t *testing.T) {
	t.Parallel()
	p := varPack(t)
	for _, c := range []struct {
		name  string
		entry Entry
		in    string
		want  string
		fault string
	}{
		{"defaults", Entry{}, `{"v":"abc"}`, `{"flag":false,"n":3,"v":"abc"}`, ""},
		{"characters, not bytes", Entry{}, `{"v":"été","n":1}`, `{"flag":false,"n":1,"v":"été"}`, ""},
		{"undeclared but used", Entry{}, `{"v":"abc","used":{"any":[1]}}`, `{"flag":false,"n":3,"used":{"any":[1]},"v":"abc"}`, ""},
		{"structured", Entry{}, `{"v":"abc","list":[1,"x"],"obj":{"k":1.0},"mode":"y"}`, `{"flag":false,"list":[1,"x"],"mode":"y","n":3,"obj":{"k":1},"v":"abc"}`, ""},
		{"state-backed agent", Entry{Agent: "b"}, ``, `{"flag":false}`, ""},
		{"prompt-backed agent", Entry{Agent: "c"}, `{"own":""}`, `{"own":""}`, ""},
		{"state override", Entry{State: "e"}, `{}`, `{"flag":false}`, ""},
		{"missing", Entry{}, ``, "", "variables.v: required variable is missing (type string)"},
		{"missing of an agent", Entry{Agent: "c"}, `{}`, "", "variables.own: required"},
		{"unknown", Entry{}, `{"v":"abc","w":1}`, "", "variables.w: unknown variable; allowed: flag, list, mode, n, obj, used, v"},
		{"unknown for this entry", Entry{Agent: "b"}, `{"n":1}`, "", "variables.n: unknown variable"},
		{"type", Entry{}, `{"v":1}`, "", "variables.v: got number, want string"},
		{"null", Entry{}, `{"v":"abc","n":null}`, "", "variables.n: got null, want number"},
		{"boolean", Entry{}, `{"v":"abc","flag":"true"}`, "", "variables.flag: got string, want boolean"},
		{"too short", Entry{}, `{"v":"a"}`, "", "variables.v: has 1 characters; the minimum is 2"},
		{"too long", Entry{}, `{"v":"abcde"}`, "", "the maximum is 4"},
		{"pattern", Entry{}, `{"v":"AB"}`, "", `does not match "^[a-zé]+$"`},
		{"enum of another prompt", Entry{}, `{"v":"xyz"}`, "", `not one of the allowed values: "abc", "été"`},
		{"minimum", Entry{}, `{"v":"abc","n":0}`, "", "0 is less than the minimum 1"},
		{"maximum", Entry{}, `{"v":"abc","n":9.5}`, "", "9.5 is more than the maximum 9"},
		{"enum of objects", Entry{}, `{"v":"abc","obj":{"k":2}}`, "", "not one of"},
		{"not JSON", Entry{}, `{"v"`, "", "variables: 1:5: not valid JSON"},
		{"not an object", Entry{}, `[1]`, "", "variables: must be a JSON object"},
		{"twice", Entry{}, `{"v":"abc","v":"abc"}`, "", "given twice"},
		{"not UTF-8", Entry{}, "{\"v\":\"\xff\"}", "", "UTF-8"},
		{"deep", Entry{}, `{"v":` + strings.Repeat("[", 100) + `}`, "", "64 deep"},
		{"large integer", Entry{}, `{"v":"abc","n":9007199254740993}`, "", "9007199254740992"},
		{"many digits", Entry{}, `{"v":"abc","n":0.1234567890123456789012}`, "", "it is 0.12345678901234568 as"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, faults, err := p.CheckVariables(c.entry, []byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if c.fault == "" {
				if len(faults) > 0 || string(got) != c.want {
					t.Errorf("got %s %v, want %s", got, faults, c.want)
				}
				return
			}
			if got != nil || len(faults) == 0 || !strings.Contains(faults[0].Error(), c.fault) {
				t.Errorf("got %s %v, want %q", got, faults, c.fault)
			}
		})
	}
}

func TestCheckVariablesOrdersFaults(t *testing.T) {
	t.Parallel()
	_, faults, err := varPack(t).CheckVariables(Entry{}, []byte(`{"z":1,"n":"x","list":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	if got := strings.Join(fields, " "); got != "variables.list variables.n variables.v variables.z" {
		t.Errorf("got %s", got)
	}
}

func TestEntryErrors(t *testing.T) {
	t.Parallel()
	p := varPack(t)
	for want, entry := range map[string]Entry{
		`agent "x" does not exist; allowed: b, c`: {Agent: "x"},
		`state "x" does not exist; allowed: e, s`: {State: "x"},
		`an agent or a state, not both`:           {Agent: "c", State: "s"},
	} {
		_, err := p.Compile(entry)
		var ee *EntryError
		if !errors.As(err, &ee) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", entry, err)
		}
		if _, _, err := p.CheckVariables(entry, nil); !errors.As(err, &ee) {
			t.Errorf("%+v: %v", entry, err)
		}
		if _, err := p.AnalyzeEntry(entry); !errors.As(err, &ee) {
			t.Errorf("%+v: %v", entry, err)
		}
	}
}

// TestPromptsOfABarePackCanBeStarted: one turn each, by key; the only one without a name.
func TestPromptsOfABarePackCanBeStarted(t *testing.T) {
	t.Parallel()
	bare := mustLoad(t, changedPack(t, "workflow = -"))
	var none *EntryError
	if _, err := bare.Compile(Entry{}); !errors.As(err, &none) || none.Name != "" || !slices.Equal(none.Allowed, []string{"a", "b"}) {
		t.Errorf("which of them: %v", err)
	}
	if _, err := bare.Compile(Entry{Agent: "t"}); !errors.As(err, &none) || !slices.Equal(none.Allowed, []string{"a", "b"}) {
		t.Errorf("a tool: %v", err)
	}
	g, err := bare.Compile(Entry{Agent: "a"})
	if err != nil || len(g.States) != 1 || !g.States["agent:a"].Terminal || g.Prompts["a"] == nil || g.Tools["t"].Agent {
		t.Errorf("graph %+v, %v", g, err)
	}
	if values, faults, err := bare.CheckVariables(Entry{Agent: "a"}, []byte(`{"v":"x"}`)); err != nil || len(faults) > 0 || string(values) != `{"v":"x"}` {
		t.Errorf("variables %s, %v, %v", values, faults, err)
	}
	if len(bare.Members()) != 0 {
		t.Errorf("agents to others: %v", bare.Members())
	}
	only := mustLoad(t, changedPack(t, "workflow = -\nprompts.b = -"))
	if g, err := only.Compile(Entry{}); err != nil || g.Entry != "agent:a" {
		t.Errorf("the only prompt: %+v, %v", g, err)
	}
}

func TestCheckPayload(t *testing.T) {
	t.Parallel()
	p, ds, _ := Load(changedPack(t, `tools.t.parameters = {"type":"object","properties":{"q":{"type":"string","maxLength":3},"step":{"type":"integer"},"big":{"type":"integer"}},"required":["q"],"additionalProperties":false}
tools.free = {"name":"free","description":"d"}`), Options{})
	if p == nil {
		t.Fatal(render(ds))
	}
	for _, c := range []struct{ name, tool, in, want string }{
		{"fits", "t", `{"q":"abc"}`, ""},
		{"a parameter called step", "t", `{"q":"a","step":2}`, ""},
		{"64-bit integer", "t", `{"q":"a","big":9223372036854775807}`, ""},
		{"missing", "t", ``, `payload: the required property "q" is missing`},
		{"type", "t", `{"q":1}`, "payload/q: got number, want string"},
		{"unknown", "t", `{"q":"a","x":1}`, `payload/x: the property "x" is not known here; allowed: big, q, step`},
		{"limit", "t", `{"q":"abcd"}`, "payload/q: maxLength"},
		{"not an object", "t", `[]`, "payload: must be a JSON object"},
		{"not JSON", "t", `{`, "payload: not valid JSON"},
		{"huge number", "t", `{"q":1e999999999}`, "payload: not valid JSON"},
		{"deep", "t", strings.Repeat("[", 100), "64 deep"},
		{"no parameters", "free", `{"x":1}`, ""},
		{"undeclared tool", "nope", `{"x":1}`, ""},
		{"undeclared tool, no object", "nope", `1`, "must be a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			faults := p.CheckPayload(c.tool, []byte(c.in))
			if c.want == "" {
				if len(faults) > 0 {
					t.Error(faults)
				}
				return
			}
			if len(faults) == 0 || !strings.Contains(faults[0].Error(), c.want) {
				t.Errorf("got %v, want %q", faults, c.want)
			}
		})
	}
}
