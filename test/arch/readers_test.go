package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// otherReaders are the ways from JSON to values beside internal/strictjson: what of which package
// a file must not use. Encoding is free.
var otherReaders = map[string][]string{
	"encoding/json": {"Unmarshal", "NewDecoder", "Decoder"},
	"google.golang.org/protobuf/encoding/protojson":     {"Unmarshal", "UnmarshalOptions"},
	"github.com/tidwall/gjson":                          {"Parse", "ParseBytes", "Get", "GetBytes", "GetMany", "GetManyBytes", "ForEachLine"},
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime": {"JSONPb", "JSONBuiltin"},
	"github.com/santhosh-tekuri/jsonschema/v6":          {"UnmarshalJSON"},
}

// readsOtherwise lists who may use another reader, a file or a directory with all below it, with
// the reason why no two readers see two values there.
var readsOtherwise = map[string]string{
	"internal/strictjson": "it is the reader",

	// Texts that the strict reader has taken a moment ago, or when they were stored.
	"internal/a2a/json.go":                     "reads requests behind strictjson.Doubles, by ProtoJSON's exact names; else what it wrote itself",
	"internal/a2a/client/wire.go":              "reads what foreign.go has cleaned by strictjson",
	"internal/a2a/protocol/value.go":           "reads values of the journal, which were checked when they came",
	"internal/grpcapi/gateway/json.go":         "reads bodies behind strictjson.Check, by ProtoJSON's exact names",
	"internal/grpcapi/redact/rules.go":         "reads variables of the journal, which internal/pack has read strictly and written in canonical form",
	"internal/prompt/render.go":                "reads variables and artifacts of the journal, which were checked when they came",
	"internal/runtime/query/run_origin.go":     "reads variables of the journal, in canonical form",
	"internal/runtime/answer.go":               "reads variables of the journal, in canonical form",
	"internal/runtime/timetravel/diff_json.go": "compares values of two journals, which were checked when they came; shows, decides nothing",
	"internal/runtime/machine/rules/answer.go": "reads one string of a checked value; the machine is pure and replays journals of earlier programs",
	"internal/runtime/machine/rules/effect.go": "reads what internal/runtime/validate has read by strictjson.Open; the machine replays journals of earlier programs",
	"internal/model/bound.go":                  "reads one number of a pack, in canonical form",
	"internal/model/stream.go":                 "reads events behind strictjson.Heard; gjson's names are exact",

	// Formats of libraries, whose own readers are strict.
	"internal/grpcapi/auth/oidc/keys.go": "a key of a JWKS, after the set was read by strictjson: go-jose reads it, whose reader has exact names and refuses a member that is there twice",

	// Packs: pack/source reads their text, refuses what is there twice, and all behind it reads the canonical form.
	"internal/pack":                        "pack/source reads the text itself, with places, and refuses members that are there twice; all else reads the canonical form, by exact names (unmarshalExact)",
	"internal/codegen":                     "reads schemas and defaults of a pack that internal/pack has read",
	"internal/grpcapi/convert/settings.go": "reads prompts of a pack, in canonical form",

	// What this program, or another one of this tree, wrote itself.
	"internal/a2a/rest.go":      "reads an object that it made of a query a line before",
	"internal/a2a/sign.go":      "reads a card that it has just written",
	"internal/audit/entry.go":   "reads its own lines, whose chain of hashes is checked",
	"internal/store/backup":     "reads its own files, whose sums are checked",
	"internal/store/runfile":    "reads its own files, whose sums are checked",
	"internal/openapi":          "reads what the build has generated",
	"cmd/sidecar/internal/dev":  "reads the ready line of the sidecar that it has started, and the names of scripts in the developer's own package.json, as npm does",
	"internal/export":           "reads values of the journal, as the sidecar tells them",
	"bench/load":                "measures; reads what its own processes say",
	"cmd/sidecar/internal/demo": "shows; reads what its own processes and the go command say",
	"test/trust":                "reads what the go command says of our tests",
	"test/testkit":              "is for tests",
	"test/conformance":          "is for tests: scenarios of this tree, and what its own drivers say",
}

// TestOneReaderOfJSON: foreign JSON is read by internal/strictjson. Every other use of a reader
// is in the list, with its reason, and the list has nothing that is not used.
func TestOneReaderOfJSON(t *testing.T) {
	t.Parallel()
	all, err := sources(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	used, strict := map[string]bool{}, 0
	for _, s := range all {
		if importName(s.file, strings.TrimSuffix(module, "/")+"/"+"internal/strictjson") != "" {
			strict++
		}
		found := readsJSON(s.files, s.file)
		if len(found) == 0 || within(s.dir(), "gen") {
			continue
		}
		at := listedAs(s.name)
		if used[at] = true; at == "" {
			t.Errorf("%s: read it by internal/strictjson (Decode, Object, Value), or give the file a row with its reason", strings.Join(found, ", "))
		}
	}
	for at, why := range readsOtherwise {
		if !used[at] || why == "" {
			t.Errorf("%s: the list has it without use or reason", at)
		}
	}
	if strict < 25 {
		t.Errorf("%d files use the strict reader: the test no longer sees them", strict)
	}
}

// listedAs is the row of a file: its own, else that of a directory above; "" = there is none.
func listedAs(name string) string {
	for at := name; at != "."; at = path.Dir(at) {
		if _, listed := readsOtherwise[at]; listed {
			return at
		}
	}
	return ""
}

// readsJSON finds the uses of other JSON readers in a file, under any import name.
func readsJSON(files *token.FileSet, file *ast.File) (found []string) {
	names := map[string][]string{}
	for pkg, readers := range otherReaders {
		switch name := importName(file, pkg); name {
		case "":
		case ".":
			found = append(found, fmt.Sprintf("%s: dot-imports %s", files.Position(file.Pos()), pkg))
		case pkg:
			names[defaultName(pkg)] = readers
		default:
			names[name] = readers
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, _ := selector.X.(*ast.Ident)
		if pkg != nil && slices.Contains(names[pkg.Name], selector.Sel.Name) || selector.Sel.Name == "UnmarshalJSON" {
			found = append(found, fmt.Sprintf("%s: %s", files.Position(n.Pos()), selector.Sel.Name))
		}
		return true
	})
	return found
}

// defaultName is the name of a package that is imported without another one.
func defaultName(pkg string) string {
	base := path.Base(pkg)
	if strings.HasPrefix(base, "v") && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(pkg))
	}
	return base
}

// TestOtherReadersAreSeen: what the test above is there for does not pass it.
func TestOtherReadersAreSeen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"import \"encoding/json\"\nvar _ = json.Unmarshal":                                                      1,
		"import j \"encoding/json\"\nfunc f() { j.NewDecoder(nil).Decode(nil); var d *j.Decoder; d.Decode(1) }": 2,
		"import . \"encoding/json\"\nvar _ = Unmarshal":                                                         1,
		"import \"google.golang.org/protobuf/encoding/protojson\"\nvar _ = protojson.UnmarshalOptions{}":        1,
		"import \"github.com/tidwall/gjson\"\nvar _ = gjson.GetBytes(nil, \"a\")":                               1,
		"import \"github.com/santhosh-tekuri/jsonschema/v6\"\nvar _, _ = jsonschema.UnmarshalJSON(nil)":         1,
		"import gw \"github.com/grpc-ecosystem/grpc-gateway/v2/runtime\"\ntype m struct{ gw.JSONPb }":           1,
		"func f(v interface{ UnmarshalJSON([]byte) error }) { _ = v.UnmarshalJSON(nil) }":                       1,
		"import \"encoding/json\"\nvar a, b = json.Marshal(nil)\nvar _ json.RawMessage":                         0,
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "x.go", "package p\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found := readsJSON(files, file); len(found) != want {
			t.Errorf("%s\n%v, want %d", text, found, want)
		}
	}
	if listedAs("internal/pack/source/json.go") != "internal/pack" || listedAs("internal/executor/answer.go") != "" {
		t.Error("the rows are not found")
	}
}
