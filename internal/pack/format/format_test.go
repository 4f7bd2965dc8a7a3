package format

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// TestSource: keys are in the order of the format, names that authors choose and keys of vendors stay where they are.
func TestSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, src, want string }{
		{"yaml", `# The shop.
version: 1.0.0 # Not 2.
id: shop
workflow:
    states:
        work: {terminal: true, prompt_task: a}
        again:
            # Goes on.
            on_event: {Z: work, A: work}
            prompt_task: a
    entry: again
    engine: {x_pawl: {tools: {z: {max_calls: 3, attempts: 2}}, max_steps: 5}, budget: {max_total_visits: 4}}
    version: 2
prompts:
    a: {version: 1.0.0, id: a, parameters: {max_tokens: 5, temperature: 1}, extensions: {z: 1, a: [2, 1]}}
metadata: {z: 1, a: {c: 2, b: 1}}
`, `# The shop.
id: shop
version: 1.0.0 # Not 2.

prompts:
  a: {id: a, version: 1.0.0, parameters: {temperature: 1, max_tokens: 5}, extensions: {z: 1, a: [2, 1]}}

metadata: {z: 1, a: {c: 2, b: 1}}

workflow:
  version: 2
  entry: again
  states:
    work: {prompt_task: a, terminal: true}
    again:
      prompt_task: a
      # Goes on.
      on_event: {Z: work, A: work}
  engine: {budget: {max_total_visits: 4}, x_pawl: {max_steps: 5, tools: {z: {attempts: 2, max_calls: 3}}}}
`},
		{"anchors keep the order", "version: &v 1.0.0\nid: a\nname: *v\n", "version: &v 1.0.0\nid: a\nname: *v\n"},
		{
			"json", `{"version":"1.0.0","id":"s","requires":{"providers":[{"role":"llm","key":"k"}]},"tools":{"t":{"parameters":{"type":"object","b":1e3,"a":"<>\u0041"},"name":"t"}},"x":[],"a":[{}]}`,
			`{
  "id": "s",
  "version": "1.0.0",
  "tools": {
    "t": {
      "name": "t",
      "parameters": {"type": "object", "b": 1000, "a": "<>A"}
    }
  },
  "requires": {
    "providers": [
      {"key": "k", "role": "llm"}
    ]
  },
  "x": [],
  "a": [
    {}
  ]
}
`,
		},
	} {
		got, err := Source([]byte(c.src))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\ngot\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

// TestRefused: what cannot be written safely is an error with its reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ src, want string }{
		{"a: [", "not valid YAML"},
		{"{", "not valid JSON"},
		{"a: 1\na: 2\n", `the name "a" is given twice`},
		{`{"a":1,"a":2}`, `the name "a" is given twice`},
	} {
		got, err := Source([]byte(c.src))
		var fault *source.Fault
		if err == nil || !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %q, %v", c.src, got, err)
		}
	}
}

// TestPacksKeepTheirDigest: all packs of the tree have a form. The form is the form of itself, and the pack has the same digest, the same
// findings but for their places, and the same comments.
func TestPacksKeepTheirDigest(t *testing.T) {
	t.Parallel()
	files := packs(t)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Source(src)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		again, err := Source(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: the form of the form differs: %v", file, err)
		}
		if before, after := digest(t, src), digest(t, got); before != after {
			t.Errorf("%s: digest %s, then %s", file, before, after)
		}
	}
	if len(files) < 20 {
		t.Fatalf("%d packs", len(files))
	}
}

func packs(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../../examples/*/*.pack.yaml", "../../../testdata/packs/*", "../testdata/versions/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			if filepath.Base(file) != "12-twice.yaml" {
				files = append(files, file)
			}
		}
	}
	return files
}

// digest returns the digest of a pack, or the findings of a pack with errors.
func digest(t *testing.T, src []byte) string {
	t.Helper()
	p, found, err := pack.Load(src, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p != nil {
		return p.Digest
	}
	var codes []string
	for _, d := range found {
		codes = append(codes, d.Code+d.Pointer)
	}
	slices.Sort(codes)
	return strings.Join(codes, " ")
}

// TestAnyTreeKeepsItsValues: for any JSON document the form has the same values and is its own form, as JSON and as YAML.
func TestAnyTreeKeepsItsValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src := writeJSON(&source.Node{Kind: source.Object, Members: members(t, 3)}, &order{})
		if rapid.Bool().Draw(t, "yaml") {
			src = append([]byte("# A comment.\n---\n"), src...)
		}
		got, err := Source(src)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		again, err := Source(got)
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("%v\n%s\n%s", err, got, again)
		}
	})
}

// names are names of the format and names of authors.
var names = []string{"workflow", "prompts", "tools", "states", "extensions", "engine", "x_pawl", "budget", "version", "id", "b", "a", "<<", "yes", "1", "", "ü: #"}

func members(t *rapid.T, depth int) (list []source.Member) {
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 5, rapid.ID[string]).Draw(t, "names") {
		list = append(list, source.Member{Name: name, Value: value(t, depth)})
	}
	return list
}

func value(t *rapid.T, depth int) *source.Node {
	kinds := []source.Kind{source.Null, source.Bool, source.Number, source.String, source.Array, source.Object}
	if depth == 0 {
		kinds = kinds[:4]
	}
	n := &source.Node{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	switch n.Kind {
	case source.Bool:
		n.Flag = rapid.Bool().Draw(t, "flag")
	case source.Number:
		n.Num = float64(rapid.IntRange(-1<<53, 1<<53).Draw(t, "number"))
	case source.String:
		n.Text = rapid.SampledFrom([]string{"", "a", "no", "1.0", " a\n\n b\n", "a # b", "- x", "\t", "é…", "a: b", "{{x}}", "~", "| a", "\u2028", "\n"}).Draw(t, "text")
	case source.Array:
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			n.Items = append(n.Items, value(t, depth-1))
		}
	case source.Object:
		n.Members = members(t, depth-1)
	}
	return n
}

// FuzzSource: no document makes the formatter panic or lose a value; Source itself compares the values.
func FuzzSource(f *testing.F) {
	f.Add([]byte("id: a # b\nname: |\n  x\n"))
	f.Add([]byte(`{"id": "a", "version": 1}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := Source(src)
		if err != nil {
			return
		}
		if again, err := Source(got); err != nil || !bytes.Equal(got, again) {
			t.Fatalf("%v\n%q\n%q", err, got, again)
		}
	})
}
