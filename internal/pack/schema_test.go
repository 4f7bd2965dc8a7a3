package pack

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/pack/cost"
)

// TestSchemasAreSchemas: the embedded files hold against their meta-schema, which
// compiling them at run time does not ask any more.
func TestSchemasAreSchemas(t *testing.T) {
	t.Parallel()
	paths, err := fs.Glob(schemaFiles, "schema/*.json")
	if err != nil || len(paths) < 2 {
		t.Fatalf("embedded schemas %v, %v", paths, err)
	}
	for _, path := range paths {
		raw, err := fs.ReadFile(schemaFiles, path)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		c := newCompiler(cost.NewPatterns())
		if err := c.AddResource("urn:pawl:"+path, doc); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := c.Compile("urn:pawl:" + path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	bad := map[string]any{"type": 7.0}
	c := newCompiler(cost.NewPatterns())
	if err := c.AddResource("urn:pawl:bad", bad); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compile("urn:pawl:bad"); err == nil {
		t.Error("the library takes what is no schema")
	}
}
