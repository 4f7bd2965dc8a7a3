package codegen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
)

var rewrite = flag.Bool("rewrite", false, "accept what is written as golden")

// endings are the file endings of the modules of each language.
var endings = map[string]string{"python": ".py", "typescript": ".ts"}

func load(t testing.TB, path string) *pack.Pack {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, found, err := pack.Load(src, pack.Options{})
	if err != nil || p == nil {
		t.Fatalf("%s: %v %v", path, err, found)
	}
	return p
}

func generate(t testing.TB, p *pack.Pack, lang string) []byte {
	t.Helper()
	made, err := Generate(p, lang)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// packs returns the packs of the examples, of this directory and of testdata.
func packs(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"testdata/*.pack.yaml", "../../examples/*/*.pack.yaml", "../../testdata/packs/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		out = append(out, found...)
	}
	return out
}

// goldenOf returns the path of the golden module of a pack. It is the module of the example itself if there
// is one with the same first line.
func goldenOf(path, name, lang string, made []byte) string {
	module := strings.ReplaceAll(name, "-", "_") + endings[lang]
	beside := filepath.Join(filepath.Dir(path), module)
	head, _, _ := bytes.Cut(made, []byte("\n"))
	if text, err := os.ReadFile(beside); err == nil && bytes.HasPrefix(text, head) {
		return beside
	}
	return filepath.Join("testdata", module)
}

// TestGolden compares the modules of the examples' packs and of the awkward one with golden files. The
// tests of the clients check these files with mypy and tsc.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, path := range packs(t) {
		name, yaml := strings.CutSuffix(filepath.Base(path), ".pack.yaml")
		if !yaml {
			continue
		}
		for _, lang := range Languages() {
			got := generate(t, load(t, path), lang)
			golden := goldenOf(path, name, lang, got)
			if *rewrite {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what is written for %s (-rewrite accepts): %v", golden, path, err)
			}
		}
	}
}

// TestSameAgain: packs with the same content in different forms lead to the same module.
func TestSameAgain(t *testing.T) {
	t.Parallel()
	for _, path := range packs(t) {
		p := load(t, path)
		canonical, found, err := pack.Load(p.Canonical, pack.Options{Accepted: true})
		if err != nil || canonical == nil {
			t.Fatal(path, err, found)
		}
		for _, lang := range Languages() {
			if !bytes.Equal(generate(t, p, lang), generate(t, canonical, lang)) {
				t.Errorf("%s: %s differs", path, lang)
			}
		}
	}
}

func TestUnknownLanguage(t *testing.T) {
	t.Parallel()
	_, err := Generate(load(t, "testdata/awkward.pack.yaml"), "cobol")
	if err == nil || !strings.Contains(err.Error(), "python, typescript") {
		t.Error(err)
	}
}

// withParameters returns a pack with one tool that has these parameters.
func withParameters(parameters string) []byte {
	return []byte(`{"id":"one","name":"One","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
"prompts":{"p":{"id":"p","name":"P","version":"1.0.0","system_template":"x","tools":["t"]}},
"tools":{"t":{"name":"t","description":"T","parameters":` + parameters + `}}}`)
}

// TestSchemas: the types that the schema of a property becomes in both languages. A schema that a language
// cannot express becomes any value, never a type that refuses what the schema allows.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, python, typescript string }{
		"text":            {`{"type":"string","pattern":"^a"}`, "str", "string"},
		"whole number":    {`{"type":"integer"}`, "int", "number"},
		"number":          {`{"type":["number","integer"]}`, "float | int", "number"},
		"truth":           {`{"type":"boolean"}`, "bool", "boolean"},
		"nothing":         {`{"type":"null"}`, "None", "null"},
		"or null":         {`{"type":["string","null"]}`, "None | str", "null | string"},
		"no keyword":      {`{}`, "Any", "Json"},
		"words":           {`{"enum":["a","b"]}`, `Literal["a", "b"]`, `"a" | "b"`},
		"one word":        {`{"const":"a"}`, `Literal["a"]`, `"a"`},
		"words and types": {`{"type":"string","enum":["a"]}`, `Literal["a"]`, `"a"`},
		"fractions":       {`{"enum":[0.5,1.5]}`, "float", "number"},
		"an object word":  {`{"const":{"a":1}}`, "dict[str, Any]", "{ readonly [name: string]: Json }"},
		"a list":          {`{"type":"array","items":{"type":"string"}}`, "list[str]", "readonly (string)[]"},
		"any list":        {`{"type":"array"}`, "list[Any]", "readonly (Json)[]"},
		"a tuple":         {`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"null"}}`, "list[Any]", "readonly (Json)[]"},
		"a map":           {`{"type":"object","additionalProperties":{"type":"integer"}}`, "dict[str, int]", "{ readonly [name: string]: number }"},
		"any object":      {`{"type":"object"}`, "dict[str, Any]", "{ readonly [name: string]: Json }"},
		"not":             {`{"not":{"type":"string"}}`, "Any", "Json"},
		"not this":        {`{"type":"string","not":{"const":"a"}}`, "str", "string"},
		"any of":          {`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, "str | int", "string | number"},
		"any of anything": {`{"anyOf":[{"type":"string"},{}]}`, "Any", "Json"},
		"all of":          {`{"allOf":[{"type":["string","null"]},{"minLength":1}]}`, "None | str", "null | string"},
		"implied":         {`{"properties":{"a":{"type":"string"}}}`, "Any", "Json"},
		"a condition":     {`{"if":{"type":"string"},"then":{"const":"a"}}`, "Any", "Json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := withParameters(`{"type":"object","properties":{"v":` + c.schema + `},"required":["v"]}`)
			p, found, err := pack.Load(document, pack.Options{})
			if err != nil || p == nil {
				t.Fatal(err, found)
			}
			for lang, want := range map[string]string{"python": "    v: " + c.python + "\n", "typescript": "readonly v: " + c.typescript + ";"} {
				if got := string(generate(t, p, lang)); !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		})
	}
}

// TestBounds: a schema that would be written without end becomes any value at some depth.
func TestBounds(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat(`{"type":"object","properties":{"a":{},"b":{}},"required":["a"]},`, 30)
	wide = "[" + strings.TrimSuffix(wide, ",") + "]"
	document := withParameters(`{"type":"object","properties":{"v":{"anyOf":` + wide + `,"oneOf":` + wide + `,"allOf":[{"anyOf":` + wide + `}]}}}`)
	p, found, err := pack.Load(document, pack.Options{})
	if err != nil || p == nil {
		t.Fatal(err, found)
	}
	for _, lang := range Languages() {
		if got := generate(t, p, lang); len(got) > 1<<20 {
			t.Errorf("%s: %d bytes", lang, len(got))
		}
	}
}

// FuzzParameters: any parameters that a pack may have are written in both languages. Each time the result
// is the same, and no name appears twice.
func FuzzParameters(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}}}`)
	f.Add(`{"type":"object","properties":{"class":{"enum":["a",1,null,"\u2028*/"]},"a b":{"oneOf":[{"type":"object","properties":{"x":{}}},{"type":"string"}]}}}`)
	f.Add(`{"type":"object","properties":{},"allOf":[{"properties":{"a":{}}},{"anyOf":[{"required":["a"]},{"patternProperties":{"x":{}}}]}],"if":{},"then":{}}`)
	f.Fuzz(func(t *testing.T, parameters string) {
		p, _, err := pack.Load(withParameters(parameters), pack.Options{})
		if err != nil || p == nil {
			return
		}
		for lang, mark := range map[string]string{"python": "class ", "typescript": "export type "} {
			made := string(generate(t, p, lang))
			if made != string(generate(t, p, lang)) {
				t.Fatalf("%s differs", lang)
			}
			names := map[string]bool{}
			for line := range strings.Lines(made) {
				name, is := strings.CutPrefix(line, mark)
				if name = strings.FieldsFunc(name+" ", func(r rune) bool { return r == ' ' || r == '(' })[0]; is && names[name] {
					t.Fatalf("%s twice in\n%s", name, made)
				}
				names[name] = is
			}
		}
	})
}

// FuzzPack: every valid pack is written in both languages.
func FuzzPack(f *testing.F) {
	for _, path := range packs(f) {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, _, err := pack.Load(src, pack.Options{})
		if err != nil || p == nil {
			return
		}
		for _, lang := range Languages() {
			generate(t, p, lang)
		}
	})
}
