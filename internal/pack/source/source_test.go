package source

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ignoreDuplicate is for tests that name nothing twice.
func ignoreDuplicate(DuplicateName) {}

// unreadable are documents with a fault each, by what Read says of them.
var unreadable = []string{
	"id: p\nna\xffme: x",
	"{\"\xc3\x28\":1}",
	`{"id":1,"id":2}`,
	`{"id"}`,
	"{\"id\":1,\n",
	`{"id":tru}`,
	"a: b\n- c",
	"a: *nope",
	"\tid: x",
	`{"id":1} {"id":2}`,
	"id: a\n---\nid: b",
	`[{"id":1}]`,
	"- id: a",
	"a: .nan",
	"a: -.inf",
	"1: x",
	"true: x",
	"~: x",
	"? [a]\n: x",
	"a: &a {x: 1}\nb: {<<: *a}",
	"a: !foo x",
	"a: !!binary aGk=",
	"a: &a [*a]",
	`{"id":"\ud800"}`,
	`{"id":"\udc00x"}`,
	`{"id":"\ud800\u0041"}`,
	`{"\ud800":1}`,
	`{"id":1e400}`,
	`{"id":1e300}`,
	`{"id":-9007199254740993}`,
	`{"id":9007199254740993.0}`,
	"id: 9007199254740993",
	"id: 0xffffffffffffff",
	"",
	"# nothing\n",
	"just text",
}

// TestReadRefuses: each fault is a code and a place; what becomes of them as findings
// about a pack is tested there.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, src := range unreadable {
		names := 0
		root, f := Read([]byte(src), DefaultLimits(), func(DuplicateName) { names++ })
		switch {
		case f == nil && names == 0 && root.Kind == Object && root.Get("apiVersion") == nil:
			t.Errorf("%q was read", src)
		case f != nil && (root != nil || !strings.HasPrefix(f.Code, "PPPAWL-") || f.Line < 1 || f.Col < 1 || f.Msg == ""):
			t.Errorf("%q: %v %+v", src, root, f)
		}
	}
}

// TestYAMLScalars: plain scalars resolve by the core schema of YAML 1.2.
func TestYAMLScalars(t *testing.T) {
	t.Parallel()
	src := `{a: yes, b: on, c: 0o17, d: 010, e: 1_000, f: 2001-01-01, g: 1e3, h: .5, i: +7, j: 0x1F, k: "12", l: ~, m: , n: True, o: No, p: 1.0.0, q: 'null', r: -0}`
	root, f := readYAML([]byte(src), DefaultLimits(), ignoreDuplicate)
	if f != nil {
		t.Fatal(f)
	}
	form, err := json.Marshal(root.Plain())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"yes","b":"on","c":15,"d":10,"e":"1_000","f":"2001-01-01","g":1000,"h":0.5,"i":7,"j":31,"k":"12","l":null,"m":null,"n":true,"o":"No","p":"1.0.0","q":"null","r":0}`
	if string(form) != want {
		t.Errorf("got  %s\nwant %s", form, want)
	}
}

// FuzzScanYAML: the lexical pass refuses nothing that lies within the limits.
// Scalars are excepted: the pass measures them as written, with escapes.
func FuzzScanYAML(f *testing.F) {
	paths, err := filepath.Glob("../../../testdata/packs/*")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	for _, src := range unreadable {
		f.Add([]byte(src))
	}
	for _, src := range []string{"a:\n- b:\n  - c\n-\n  - d", "? a\n: - b\n  - c", "a: b\n  c: d", "- - - a\n  - b\n- c", "a: [b,\n c]\nd: {e: 'f''g'}"} {
		f.Add([]byte(src))
	}
	limits := Limits{Bytes: 1 << 16, Depth: 8, Scalar: 1 << 16, Nodes: 40}
	f.Fuzz(func(t *testing.T, src []byte) {
		if scanBytes(src, limits) != nil || IsJSON(src) {
			return
		}
		if _, exact := readYAML(src, limits, ignoreDuplicate); exact != nil {
			return
		}
		s := yamlScanner{scanner: scanner{src: src, limits: limits}}
		if early := s.scanYAML(); early != nil {
			t.Fatalf("%q: %v", src, early)
		}
	})
}
