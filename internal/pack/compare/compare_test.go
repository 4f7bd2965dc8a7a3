package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// base is the old pack of the tests. Each edit replaces a text in it.
const base = `id: shop
name: Shop
version: 1.0.0
template_engine: {version: v1, syntax: "{{variable}}"}
tools:
  pay: {name: pay, description: Pays., parameters: {type: object, properties: {n: {type: number}}}}
prompts:
  ask:
    id: ask
    name: Ask
    version: 1.0.0
    system_template: Ask {{who}}.
    tools: [pay]
    tool_policy: {max_tool_calls_per_turn: 4}
    variables: [{name: who, type: string, required: false}]
  end: {id: end, name: End, version: 1.0.0, system_template: End.}
workflow:
  version: 2
  entry: ask
  engine:
    budget: {max_total_visits: 9}
    x_pawl: {tools: {pay: {attempts: 3, timeout_sec: 60}}, retry: 2, lease_sec: 30, models: {ask: small}}
  states:
    ask: {prompt_task: ask, on_event: {Again: ask, Paid: end}, max_visits: 3, on_max_visits: end, artifacts: {note: {type: text/plain}}}
    end: {prompt_task: end, terminal: true}
`

// TestPacks: each edit is one change, with its effect and its meaning.
func TestPacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		edits []string
		want  string
	}{
		{[]string{"max_visits: 3", "max_visits: 4"}, "changed bound max_visits of ask raised: The bound of new runs is 4."},
		{[]string{"max_visits: 3", "max_visits: 2"}, "changed bound max_visits of ask lowered: The bound of new runs is 2."},
		{[]string{"max_visits: 3, on_max_visits: end, ", ""}, "removed exit ask: A new run that uses up the visits of ask ends.\nremoved bound max_visits of ask raised: New runs have no such bound."},
		{[]string{"{max_total_visits: 9}", "{max_total_visits: 9, max_tool_calls: 5}"}, "added budget max_tool_calls lowered: The bound of new runs is 5."},
		{[]string{"attempts: 3, ", ""}, "removed bound attempts of pay lowered: The bound of new runs is the default, 1."},
		{[]string{"timeout_sec: 60", "timeout_sec: 300"}, "changed bound timeout of pay raised: The bound of new runs is 300."},
		{[]string{", timeout_sec: 60", ""}, "removed bound timeout of pay raised: The bound of new runs is the default, 300."},
		{[]string{"retry: 2", "retry: {max_attempts: 2}"}, ""},
		{[]string{"retry: 2", "retry: {max_attempts: 3}"}, "changed bound attempts of a turn raised: The bound of new runs is 3."},
		{[]string{"retry: 2, ", ""}, "removed bound attempts of a turn raised: The bound of new runs is the default, 3."},
		{[]string{"lease_sec: 30", "max_pending_steps: 8"}, "added bound max_pending_steps: Nothing changes: it is the bound that new runs have without it.\n" +
			"removed bound lease_sec: The lease of turns in new runs is that of the sidecar."},
		{[]string{"Again: ask, ", ""}, "removed event Again of ask: In ask, new runs refuse Again (UNKNOWN_EVENT)."},
		{[]string{"Again: ask", "Again: end"}, "changed event Again of ask: In ask, Again takes new runs to end instead of ask."},
		{
			[]string{"Paid: end", "Paid: over", "on_max_visits: end", "on_max_visits: over", "    end: {prompt_task: end, t", "    over: {prompt_task: end, t"},
			"removed state end: New runs have no such state. | A run that has visited end cannot be forked to NEW (FORK_STATE_MISSING).\n" +
				"added state over: New runs can be in it if an event or an exit leads to it.\n" +
				"changed event Paid of ask: In ask, Paid takes new runs to over instead of end.\n" +
				"changed exit ask: A new run that uses up the visits of ask goes to over.",
		},
		{[]string{"text/plain", "text/markdown"}, "changed artifact type of note in ask: New runs write note in the new form. | A run in which note is set cannot be forked to NEW (FORK_ARTIFACT_MISMATCH)."},
		{
			[]string{"properties: {n: {type: number}}", "properties: {n: {type: integer}}"},
			"changed tool parameters of pay: Calls of pay in new runs are checked against the new schema. | Runs of OLD call pay by the old schema: its worker gets both forms.",
		},
		{[]string{"tools: [pay]", "tools: []"}, "removed tool pay in the prompt ask: Calls in turns of ask in new runs are refused (TOOL_NOT_LISTED)."},
		{[]string{"max_tool_calls_per_turn: 4", "max_tool_calls_per_turn: 5"}, "changed bound max_tool_calls_per_turn of ask raised: The bound of new runs is 5."},
		{[]string{"    tool_policy: {max_tool_calls_per_turn: 4}\n", ""}, "removed bound tool_policy of ask: New runs have no bound of tool calls in a turn of ask, and nothing is blocked."},
		{[]string{"Ask {{who}}", "Please ask {{who}}"}, "changed prompt template of ask: Turns of ask in new runs get the new text. Runs of OLD keep theirs, also after a restart."},
		{[]string{"required: false}", "required: false}, {name: why, type: string, required: true}"}, "added variable why of ask: Starts may give it."},
		{[]string{"name: who, type: string, required: false", "required: true, type: string, name: who"}, "changed variable required of who in ask: Starts without it are refused (BAD_VARIABLES) if it is required and has no default."},
		{[]string{"ask: small", "ask: large"}, "changed model prompt ask: Turns of ask in new runs call the model large."},
		{[]string{"pay: {attempts", "pay: {approve: payload.n > 9.0, attempts"}, "added approval pay: Which calls of pay in new runs wait for a decision: payload.n > 9.0."},
		{[]string{"name: Shop", "name: The shop"}, "changed text name: The name changes for readers."},
		{[]string{"version: 1.0.0\ntem", "version: 1.1.0\ntem"}, "changed text version: Registration makes another version."},
		{[]string{"name: Shop", "name: 'Shop'"}, ""},
	} {
		for i := 0; i < len(c.edits); i += 2 {
			if !strings.Contains(base, c.edits[i]) {
				t.Fatalf("%q is not in the base", c.edits[i])
			}
		}
		r, err := Packs(load(t, base), load(t, strings.NewReplacer(c.edits...).Replace(base)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, change := range r.Changes {
			got = append(got, line(change))
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%q\ngot\n%s\nwant\n%s", c.edits, strings.Join(got, "\n"), c.want)
		}
	}
}

// line returns a change as one line: kind, area, name, effect on a bound, and the sentences that follow.
func line(c Change) string {
	words := []string{string(c.Kind), c.Area, c.Name}
	if c.Bound != "" {
		words = append(words, c.Bound)
	}
	text := strings.Join(words, " ") + ": " + c.NewRuns
	for _, more := range []string{c.RunningRuns, c.Forks} {
		if more != "" {
			text += " | " + more
		}
	}
	return text
}

func load(t *testing.T, text string) *pack.Pack {
	t.Helper()
	p, found, err := pack.Load([]byte(text), pack.Options{})
	if err != nil || p == nil {
		t.Fatalf("%v %v\n%s", found, err, text)
	}
	return p
}

// TestRuns: the sentences about all runs follow from the names and the digests.
func TestRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{"", "", "The packs have the same digest: nothing changes."},
		{"version: 1.0.0\ntem", "version: 2.0.0\ntem", "When NEW is registered, new runs that name shop get shop@2.0.0. With --keep-default, only runs that name shop@2.0.0 get it."},
		{"name: Shop", "name: Shops", "Where OLD is registered, NEW is refused (PACK_VERSION_TAKEN): give it another version than 1.0.0."},
		{"id: shop", "id: shop2", "NEW is another pack: runs that name shop do not get it."},
		{"retry: 2", "retry: {max_attempts: 2}", "Both packs say the same in different words."},
	} {
		r, err := Packs(load(t, base), load(t, strings.Replace(base, c.old, c.new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(r.Runs, c.want) || r.Same != (c.old == "") {
			t.Errorf("%q: same %v, %q", c.new, r.Same, r.Runs)
		}
	}
}

// TestNothingIsMissed: in every pack of the tree, each value that is removed or replaced is a change, and the comparison in the other
// direction has as many changes.
func TestNothingIsMissed(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"../../../examples/*/*.pack.yaml", "../../../testdata/packs/*", "../testdata/versions/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	values := 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, fault := source.Read(src, source.DefaultLimits(), func(source.DuplicateName) {})
		if fault != nil {
			t.Fatalf("%s: %v", file, fault)
		}
		doc, _ := root.Plain().(map[string]any)
		before, _ := root.Plain().(map[string]any)
		if got := changesOf(before, doc); len(got) != 0 {
			t.Fatalf("%s differs from itself: %v", file, got)
		}
		visitValues(doc, nil, func(at []string, value any, edit func(other any)) {
			values++
			for _, other := range []any{nil, "other"} {
				if value == nil && other == nil {
					continue
				}
				edit(other)
				there, back := changesOf(before, doc), changesOf(doc, before)
				if len(there) == 0 || len(there) != len(back) {
					t.Errorf("%s: %v = %v: %d changes there, %d back", file, at, other, len(there), len(back))
				}
			}
		})
	}
	if len(files) < 20 || values < 1000 {
		t.Errorf("%d files, %d values", len(files), values)
	}
}

// visitValues calls do for every value: every member of every object and every item of every list. edit replaces the value; nil removes a member. After do, the
// value is as it was.
func visitValues(v any, at []string, do func(at []string, value any, edit func(other any))) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			here := append(slices.Clone(at), name)
			do(here, value, func(other any) {
				if v[name] = other; other == nil {
					delete(v, name)
				}
			})
			v[name] = value
			visitValues(value, here, do)
		}
	case []any:
		for i, value := range v {
			here := append(slices.Clone(at), fmt.Sprint(i))
			do(here, value, func(other any) { v[i] = other })
			v[i] = value
			visitValues(value, here, do)
		}
	}
}
