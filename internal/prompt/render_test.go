package prompt

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decode reads a JSON object as the caller of Render would.
func decode(t testing.TB, src string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(src))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRender(t *testing.T) {
	t.Parallel()
	vars := decode(t, `{"name":"Ada","n":3,"big":12345678901234567890,"f":0.1,"yes":true,"none":null,
		"user":{"profile":{"name":"Bo"},"tags":["x","y"]},"items":[{"title":"first"},[1,2]],
		"html":"<a & b>","leak":"{{secret}}","secret":"s3cret","obj":{"b":1,"a":"<"},"empty":"","artifacts":"own"}`)
	arts := decode(t, `{"report":{"pass":2,"list":["a"]},"sha":"abc","inject":"{{secret}} {{fragments.f}}"}`)
	frags := map[string]string{"f": "F", "who": "I am {{ name }}", "outer": "[{{fragments.who}}]"}
	for _, c := range []struct{ name, in, want string }{
		{"literal only", "no braces", "no braces"},
		{"string", "Hi {{name}}!", "Hi Ada!"},
		{"inner spaces", "{{ name }}{{\tname\t}}", "AdaAda"},
		{"line break is literal", "{{\nname}}", "{{\nname}}"},
		{"number", "{{n}} {{f}} {{big}}", "3 0.1 12345678901234567890"},
		{"boolean", "{{yes}}", "true"},
		{"null is empty", "[{{none}}]", "[]"},
		{"missing is empty", "[{{nobody}}]", "[]"},
		{"empty string", "[{{empty}}]", "[]"},
		{"object is compact", "{{obj}}", `{"a":"<","b":1}`},
		{"array is compact", "{{items}}", `[{"title":"first"},[1,2]]`},
		{"not escaped", "{{html}}", "<a & b>"},
		{"dots", "{{user.profile.name}}", "Bo"},
		{"index", "{{items[0].title}} {{items[1][1]}}", "first 2"},
		{"index out of range", "[{{items[9]}}]", "[]"},
		{"member of a scalar", "[{{name.x}}]", "[]"},
		{"index of an object", "[{{user[0]}}]", "[]"},
		{"member of an array", "[{{items.title}}]", "[]"},
		{"artifact", "{{artifacts.sha}} {{artifacts.report}}", `abc {"list":["a"],"pass":2}`},
		{"artifact path", "{{artifacts.report.pass}}{{artifacts.report.list[0]}}", "2a"},
		{"unset artifact is empty", "[{{artifacts.none}}]", "[]"},
		{"bare namespace is a variable", "{{artifacts}}", "own"},
		{"fragment", "{{fragments.f}}", "F"},
		{"fragment with placeholder", "{{fragments.who}}.", "I am Ada."},
		{"nested fragment", "{{fragments.outer}}", "[I am Ada]"},
		{"value is not expanded", "{{leak}}", "{{secret}}"},
		{"artifact is not expanded", "{{artifacts.inject}}", "{{secret}} {{fragments.f}}"},
		{"JSON is literal", `{{"k":1}} {"a":{"b":1}}`, `{{"k":1}} {"a":{"b":1}}`},
		{"conditional is literal", "{{#if name}}x{{/if}}", "{{#if name}}x{{/if}}"},
		{"filter is literal", "{{name | upper}}", "{{name | upper}}"},
		{"colon form is literal", "{{fragment:f}}", "{{fragment:f}}"},
		{"unclosed is literal", "{{name", "{{name"},
		{"one brace is literal", "{name} {{name}", "{name} {{name}"},
		{"three braces", "{{{name}}}", "{Ada}"},
		{"empty path is literal", "{{}} {{ }} {{.}} {{a.}} {{a..b}} {{.a}}", "{{}} {{ }} {{.}} {{a.}} {{a..b}} {{.a}}"},
		{"bad index is literal", "{{items[]}} {{items[-1]}} {{items[x]}} {{items[0}}", "{{items[]}} {{items[-1]}} {{items[x]}} {{items[0}}"},
		{"digit first is literal", "{{1a}}", "{{1a}}"},
		{"dash is literal", "{{a-b}}", "{{a-b}}"},
		{"neighbours", "{{name}}{{name}}", "AdaAda"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Render(c.in, Scope{Variables: vars, Artifacts: arts, Fragments: frags})
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestRenderRawValues(t *testing.T) {
	t.Parallel()
	got, err := Render("{{a}} {{b.c}} {{bad}} {{f}} {{i}}", Scope{Variables: map[string]any{
		"a": json.RawMessage(`{"x":1.50}`), "b": json.RawMessage(`{"c":[true]}`), "bad": json.RawMessage(`{`),
		"f": 2.5, "i": 7,
	}})
	if want := `{"x":1.50} [true]  2.5 7`; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestFragmentErrors(t *testing.T) {
	t.Parallel()
	chain := map[string]string{"f1": "end"}
	for i := 2; i <= 9; i++ {
		chain[name(i)] = "{{fragments." + name(i-1) + "}}"
	}
	for _, c := range []struct {
		name, in string
		frags    map[string]string
		want     error
	}{
		{"unknown", "{{fragments.x}}", nil, ErrNoFragment},
		{"member of a fragment", "{{fragments.x.y}}", map[string]string{"x": "t"}, ErrNoFragment},
		{"self", "{{fragments.a}}", map[string]string{"a": "{{fragments.a}}"}, ErrCycle},
		{"cycle", "{{fragments.a}}", map[string]string{"a": "{{fragments.b}}", "b": "{{ fragments.a }}"}, ErrCycle},
		{"depth 8 is allowed", "{{fragments.f8}}", chain, nil},
		{"depth 9 is not", "{{fragments.f9}}", chain, ErrDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Render(c.in, Scope{Fragments: c.frags}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func name(i int) string { return "f" + string(rune('0'+i)) }

// TestRenderBomb: fragments that multiply end at the limit, quickly, whether
// they write text or nothing at all.
func TestRenderBomb(t *testing.T) {
	t.Parallel()
	for _, leaf := range []string{"xxxxxxxxxx", ""} {
		frags := map[string]string{"f1": leaf}
		for i := 2; i <= 8; i++ {
			frags[name(i)] = strings.Repeat("{{fragments."+name(i-1)+"}}", 100)
		}
		if _, err := Render("{{fragments.f8}}", Scope{Fragments: frags, MaxBytes: 1 << 16}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("leaf %q: got %v, want %v", leaf, err, ErrTooLarge)
		}
	}
	big := Scope{Variables: map[string]any{"v": strings.Repeat("x", 1<<20)}}
	if _, err := Render(strings.Repeat("{{v}}", 5), big); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want %v", err, ErrTooLarge)
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	tpl := Parse("a {{x.y[2]}} {{artifacts.r.p}} {{ fragments.f }} {{#no}} {{z}")
	refs := tpl.Refs()
	if len(refs) != 3 {
		t.Fatalf("got %d refs: %+v", len(refs), refs)
	}
	if r := refs[0]; r.Namespace != Variable || r.Name != "x" || len(r.Path) != 2 || r.Path[1].Index != 2 || r.Offset != 2 {
		t.Errorf("variable: %+v", r)
	}
	if r := refs[1]; r.Namespace != Artifact || r.Name != "r" || len(r.Path) != 1 || r.Path[0].Name != "p" {
		t.Errorf("artifact: %+v", r)
	}
	if r := refs[2]; r.Namespace != Fragment || r.Name != "f" || len(r.Path) != 0 {
		t.Errorf("fragment: %+v", r)
	}
	if lits := tpl.Literals(); len(lits) != 2 || lits[0] != 49 {
		t.Errorf("literals: %v", lits)
	}
}

// TestValuesGoInVerbatim: for any value, the result is the template with the value in the place of the
// placeholder.
func TestValuesGoInVerbatim(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"{{v}}", "{{ secret }}", "{{fragments.f}}", "{{", "}}", "{", "}", "v", " ", "é", "\x00", "{{artifacts.a}}"})
	rapid.Check(t, func(t *rapid.T) {
		value := strings.Join(rapid.SliceOf(piece).Draw(t, "value"), "")
		before := rapid.SampledFrom([]string{"", "{", "a ", "}}"}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", "}", " b", "{{"}).Draw(t, "after")
		scope := Scope{
			Variables: map[string]any{"v": value, "secret": "S"},
			Artifacts: map[string]any{"a": value}, Fragments: map[string]string{"f": "F"},
		}
		for _, in := range []string{"{{v}}", "{{artifacts.a}}"} {
			got, err := Render(before+in+after, scope)
			if err != nil || got != before+value+after {
				t.Fatalf("%q: got %q, %v", before+in+after, got, err)
			}
		}
	})
}

// TestLiteralText: text without double braces renders to itself.
func TestLiteralText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src := strings.ReplaceAll(rapid.String().Draw(t, "src"), "{{", "{ {")
		if got, err := Render(src, Scope{}); err != nil || got != src {
			t.Fatalf("got %q, %v; want %q", got, err, src)
		}
	})
}

func FuzzRender(f *testing.F) {
	for _, s := range []string{"{{a}}", "{{ a.b[0] }}", "{{fragments.f}}{{artifacts.x}}", "{{{a}}}", "{{a[999999999999]}}", "{{\xff}}"} {
		f.Add(s, "v {{a}}")
	}
	f.Fuzz(func(t *testing.T, src, value string) {
		tpl := Parse(src)
		at := 0
		for _, r := range tpl.Refs() {
			if r.Offset < at || r.End <= r.Offset || r.End > len(src) || src[r.Offset:r.Offset+2] != "{{" || src[r.End-2:r.End] != "}}" {
				t.Fatalf("bad ref %+v in %q", r, src)
			}
			at = r.End
		}
		scope := Scope{
			Variables: map[string]any{"a": value, "o": map[string]any{"b": []any{value, 1.5}}},
			Artifacts: map[string]any{"x": value}, Fragments: map[string]string{"f": src, "g": value},
		}
		out, err := Render(src, scope)
		if err == nil && len(out) > DefaultMaxBytes {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

func BenchmarkRender(b *testing.B) {
	tpl := Parse(strings.Repeat("Some text {{user.name}} and {{artifacts.report}}.\n", 20))
	scope := Scope{
		Variables: map[string]any{"user": map[string]any{"name": "Ada"}},
		Artifacts: map[string]any{"report": map[string]any{"passed": 5.0, "failed": []any{"a", "b"}}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tpl.Render(scope); err != nil {
			b.Fatal(err)
		}
	}
}
