package pack

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// TestEditorSchema: what an editor is given compiles, takes the packs of the examples, and knows the keys of
// this product.
func TestEditorSchema(t *testing.T) {
	t.Parallel()
	raw, err := EditorSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := newCompiler(cost.NewPatterns())
	if err := c.AddResource("urn:pawl:editor", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("urn:pawl:editor")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../examples/*/*.pack.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, fault := source.Read(src, source.DefaultLimits(), func(source.DuplicateName) {})
		if fault != nil {
			t.Fatal(fault)
		}
		if err := compiled.Validate(root.Plain()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	wrong, fault := source.ParseJSON(changedPack(t, `workflow.engine.x_pawl = {"max_stepz":1}`), func(source.DuplicateName) {})
	if fault != nil || compiled.Validate(wrong.Plain()) == nil {
		t.Error("a key of x_pawl that does not exist is taken")
	}
}
