package pack

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

//go:embed schema/*.json
var schemaFiles embed.FS

// Published schemas that Options.Strict can name.
const (
	Schema140 = "1.4.0"
	Schema150 = "1.5.0"
)

// PublishedSchemas lists the values of Options.Strict beside "".
func PublishedSchemas() []string { return []string{Schema140, Schema150} }

// schema is one compiled JSON Schema together with its document, which error
// messages take the allowed names from.
type schema struct {
	compiled *jsonschema.Schema
	doc      any
}

// The published schemas are the files of the specification (1.4.0) and of the
// reference runtime (1.5.0), byte for byte. The union is ours.
var (
	unionSchema = sync.OnceValues(func() (*schema, error) { return compileSchema("schema/union.json", true) })
	schema140   = sync.OnceValues(func() (*schema, error) {
		return compileSchema("schema/promptpack.schema-1.4.0.json", false)
	})
	schema150 = sync.OnceValues(func() (*schema, error) {
		return compileSchema("schema/promptpack.schema-1.5.0.json", false)
	})
)

// publishedSchema returns a schema by its version.
func publishedSchema(version string) (*schema, error) {
	switch version {
	case Schema140:
		return schema140()
	case Schema150:
		return schema150()
	}
	return nil, fmt.Errorf("pack: strict schema %q is not known; allowed: %s", version, strings.Join(PublishedSchemas(), ", "))
}

// compileSchema compiles an embedded file. Formats (date, date-time, uri) are
// annotations in draft 2020-12; only our own schema asserts them.
func compileSchema(path string, formats bool) (*schema, error) {
	raw, err := fs.ReadFile(schemaFiles, path)
	if err != nil {
		return nil, fmt.Errorf("pack: schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("pack: schema %s: %w", path, err)
	}
	c := newCompiler(cost.NewPatterns())
	if formats {
		c.AssertFormat()
	}
	// The library does not hold documents of this host against the meta-schema, which
	// takes as long as compiling them: TestSchemasAreSchemas does.
	url := "https://json-schema.org/pawl/" + path
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("pack: schema %s: %w", path, err)
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("pack: schema %s: %w", path, err)
	}
	return &schema{compiled: compiled, doc: doc}, nil
}

// newCompiler returns a compiler that reads nothing from disk or network, and bounds
// patterns.
func newCompiler(p *cost.Patterns) *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(p.Compile)
	return c
}

// noLoader refuses references that leave the schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", source.Clip(url, 200))
}

// checkSchema files what the schemas say. Lenient: the union decides, and what
// a published schema refuses beyond that is a warning. Strict: the named schema
// decides, and the union adds what only our rules need.
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
	fileFaults(found, slices.DeleteFunc(faults, func(f schemaFault) bool { return covered(exact, f) }))
	return nil
}

// covered says whether one of the faults is about the same value.
func covered(faults []schemaFault, f schemaFault) bool {
	_, ok := slices.BinarySearchFunc(faults, f, func(a, b schemaFault) int { return strings.Compare(a.pointer, b.pointer) })
	return ok
}

// fileFaults files schema faults as errors; formats alone are warnings.
func fileFaults(found *findings, faults []schemaFault) {
	for _, f := range faults {
		code := f.code()
		if f.keyword == "format" {
			found.warn(code, f.pointer, f.hint, "%s", f.msg)
			continue
		}
		if strings.HasPrefix(f.pointer, "/metadata/governance") {
			found.tightened(code, f.pointer, f.hint, "%s", f.msg)
			continue
		}
		found.err(code, f.pointer, f.hint, "%s", f.msg)
	}
}

// warnPublished says where the published schemas refuse what was accepted.
func warnPublished(root any, accepted []schemaFault, found *findings) error {
	by := map[schemaFault][]string{}
	var order []schemaFault
	for _, version := range PublishedSchemas() {
		s, err := publishedSchema(version)
		if err != nil {
			return err
		}
		for _, f := range s.validate(root) {
			if covered(accepted, f) {
				continue
			}
			if by[f] == nil {
				order = append(order, f)
			}
			by[f] = append(by[f], version)
		}
	}
	for _, f := range order {
		versions := by[f]
		code := schemaPrefix + versions[0]
		if len(versions) > 1 {
			code = schemaPrefix + "published"
		}
		found.warn(code, f.pointer, "It is accepted here; a tool that applies that schema will refuse it.",
			"published schema %s: %s", strings.Join(versions, " and "), f.msg)
	}
	return nil
}
