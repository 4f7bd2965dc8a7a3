package pack

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

//go:embed schema/*.json
var schemaFiles embed.FS

// Newest is the newest published version of the format that this package knows.
const Newest = "1.9.0"

// publishedVersions are the versions of the format that [Options].Strict can name, the oldest first. 1.8.1
// changed only the notation of one pattern, which matches the same strings.
var publishedVersions = []string{"1.4.0", "1.5.0", "1.5.1", "1.6.0", "1.7.0", "1.8.0", "1.8.1", Newest}

// PublishedSchemas returns the values of Options.Strict, without "", the oldest version first.
func PublishedSchemas() []string { return slices.Clone(publishedVersions) }

// schema is a compiled JSON Schema together with its document. Error messages take the allowed names from the document.
type schema struct {
	compiled *jsonschema.Schema
	doc      any
}

const (
	newestFile = "schema/promptpack-" + Newest + ".json"
	unionFile  = "schema/union.json"
	// sinceKey is a key in the newest schema. Its value is the first version of the format that has the
	// property.
	sinceKey = "x-since"
)

// The newest schema has the structure of the schema in the specification, with the descriptions of this
// product. An older schema is the newest schema without the later additions. The union is the newest
// schema together with the keys of this product.
var (
	unionSchema = sync.OnceValues(func() (*schema, error) {
		doc, err := readSchema(unionFile)
		if err != nil {
			return nil, err
		}
		return compileSchema(unionFile, doc, true)
	})
	publishedSchemas = onceForEach()
)

// onceForEach returns a function for each published version. The function makes the schema of the
// version when it is first called.
func onceForEach() map[string]func() (*schema, error) {
	out := make(map[string]func() (*schema, error), len(publishedVersions))
	for _, version := range publishedVersions {
		out[version] = sync.OnceValues(func() (*schema, error) {
			doc, err := readSchema(newestFile)
			if err != nil {
				return nil, err
			}
			return compileSchema("schema/promptpack-"+version+".json", asOf(doc, version), false)
		})
	}
	return out
}

// publishedSchema returns a schema by its version.
func publishedSchema(version string) (*schema, error) {
	if get := publishedSchemas[version]; get != nil {
		return get()
	}
	return nil, fmt.Errorf("pack: strict schema %q is not known; allowed: %s", version, strings.Join(publishedVersions, ", "))
}

// asOf changes doc, the newest schema: it removes everything that was added after a version.
func asOf(doc map[string]any, version string) map[string]any {
	at := slices.Index(publishedVersions, version)
	withoutYounger(doc, at)
	if version == publishedVersions[0] {
		// Since 1.5.0 a state may have a composition instead of a prompt.
		state := doc["$defs"].(map[string]any)["WorkflowState"].(map[string]any)
		delete(state, "if")
		delete(state, "then")
		delete(state, "else")
		state["required"] = []any{"prompt_task"}
		delete(state["properties"].(map[string]any)["orchestration"].(map[string]any), "enum")
	}
	return doc
}

// withoutYounger removes the properties and alternatives of versions after publishedVersions[at].
func withoutYounger(node any, at int) {
	younger := func(v any) bool {
		property, _ := v.(map[string]any)
		since, ok := property[sinceKey].(string)
		return ok && slices.Index(publishedVersions, since) > at
	}
	switch node := node.(type) {
	case []any:
		for _, v := range node {
			withoutYounger(v, at)
		}
	case map[string]any:
		for key, v := range node {
			switch v := v.(type) {
			case map[string]any:
				if key == "properties" {
					maps.DeleteFunc(v, func(_ string, p any) bool { return younger(p) })
				}
			case []any:
				if key == "oneOf" {
					node[key] = slices.DeleteFunc(v, younger)
				}
			}
			withoutYounger(node[key], at)
		}
	}
}

// readSchema reads an embedded file. It reads the file again in each call, so that the caller may
// change the result.
func readSchema(path string) (map[string]any, error) {
	raw, err := fs.ReadFile(schemaFiles, path)
	if err != nil {
		return nil, fmt.Errorf("pack: schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("pack: schema %s: %w", path, err)
	}
	return doc.(map[string]any), nil
}

// compileSchema compiles a schema of this package. In draft 2020-12, formats (date, date-time, uri) are only
// annotations. If formats is true, they are checked; this is used only for the union (the newest schema with the keys
// of this product).
func compileSchema(path string, doc map[string]any, formats bool) (*schema, error) {
	c := newCompiler(cost.NewPatterns())
	if formats {
		c.AssertFormat()
	}
	// The library does not check documents with this host name against the meta-schema. That check
	// would take as long as the compilation. TestSchemasAreSchemas makes it instead.
	url := "https://json-schema.org/pawl/" + path
	delete(doc, "$id")
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("pack: schema %s: %w", path, err)
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("pack: schema %s: %w", path, err)
	}
	return &schema{compiled: compiled, doc: doc}, nil
}

// newCompiler returns a compiler that reads no files and uses no network. It bounds the cost of
// patterns.
func newCompiler(p *cost.Patterns) *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(p.Compile)
	return c
}

// noLoader returns an error for references to documents other than the schema itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", source.Clip(url, 200))
}

// checkSchema reports the faults that the schemas find. The union is the newest schema with the keys of this product. If strict is "",
// faults of the union are errors, and faults that only the newest published schema finds are warnings. Otherwise, faults of the schema
// that strict names are errors, and the union adds only faults about values for which that schema has none.
func checkSchema(root any, strict string, found *findings) error {
	union, err := unionSchema()
	if err != nil {
		return err
	}
	faults := union.validate(root)
	if strict == "" {
		fileFaults(found, faults)
		return warnPublished(root, faults, found)
	}
	published, err := publishedSchema(strict)
	if err != nil {
		return err
	}
	exact := published.validate(root)
	fileFaults(found, exact)
	fileFaults(found, slices.DeleteFunc(faults, func(f schemaFault) bool { return hasFaultAt(exact, f) }))
	return nil
}

// hasFaultAt reports whether a list of faults has one about the same value as f.
func hasFaultAt(faults []schemaFault, f schemaFault) bool {
	_, ok := slices.BinarySearchFunc(faults, f, func(a, b schemaFault) int { return strings.Compare(a.pointer, b.pointer) })
	return ok
}

// fileFaults reports faults of the schema as errors, and values with a wrong format (for example a date) as warnings. Faults in the
// governance of the pack are only warnings for packs that were accepted earlier.
func fileFaults(found *findings, faults []schemaFault) {
	for _, f := range faults {
		code := f.code()
		if f.keyword == "format" {
			found.warn(code, f.pointer, f.hint, "%s", f.msg)
			continue
		}
		if strings.HasPrefix(f.pointer, "/metadata/governance") {
			found.reportTightened(code, f.pointer, f.hint, "%s", f.msg)
			continue
		}
		found.err(code, f.pointer, f.hint, "%s", f.msg)
	}
}

// warnPublished reports, as warnings, those accepted parts of a pack that the newest published schema refuses.
func warnPublished(root any, accepted []schemaFault, found *findings) error {
	s, err := publishedSchema(Newest)
	if err != nil {
		return err
	}
	for _, f := range s.validate(root) {
		if !hasFaultAt(accepted, f) {
			found.warn(schemaPrefix+"published", f.pointer, "It is accepted here; a tool that applies that schema will refuse it.",
				"published schema %s: %s", Newest, f.msg)
		}
	}
	return nil
}
