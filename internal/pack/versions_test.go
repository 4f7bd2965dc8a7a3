package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestVersions: packs with the words of each version of the format are registered or refused as the file says.
// The file has all findings, the versions under which each pack is valid, and whether its runs start. With
// -rewrite the test writes the file again.
func TestVersions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/versions/*.yaml")
	if err != nil || len(files) != 12 {
		t.Fatal(files, err)
	}
	var b strings.Builder
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n%s\n", filepath.Base(file), verdictOf(t, src))
	}
	const want = "testdata/versions/verdicts.txt"
	if *rewrite {
		if err := os.WriteFile(want, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(want)
	if err != nil || string(text) != b.String() {
		t.Errorf("not as in %s (%v):\n%s", want, err, b.String())
	}
}

func verdictOf(t *testing.T, src []byte) string {
	t.Helper()
	var b strings.Builder
	p, found, err := Load(src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	if p == nil {
		return b.String() + "  refused\n"
	}
	var valid []string
	for _, version := range PublishedSchemas() {
		_, found, err := Load(src, Options{Strict: version})
		if err != nil {
			t.Fatal(err)
		}
		if !HasErrors(found) {
			valid = append(valid, version)
		}
	}
	fmt.Fprintf(&b, "  valid since %s\n", valid[0])
	if !slices.Equal(valid, PublishedSchemas()[len(PublishedSchemas())-len(valid):]) {
		t.Errorf("valid under %v: a later version refuses what an earlier one takes", valid)
	}
	if err := p.Supports(Entry{}); err != nil {
		fmt.Fprintf(&b, "  does not start: %v\n", err)
	}
	return b.String()
}

// TestOpenPartsAreKept: the stored document has the parts that the format leaves open as they were given.
func TestOpenPartsAreKept(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/versions/16-extensions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := mustLoad(t, src)
	if !bytes.Equal(p.Source, src) {
		t.Error("the source is another")
	}
	for _, part := range []string{
		`"extensions":{"q/e":[1,{"deep":true}]}`, `"extensions":{"q/v":1}`, `"extensions":{"q/p":{"any":["json",null]}}`, `"extensions":{"q/a":"x"}`,
		`"extensions":{"q/s":true}`, `"extensions":{"q/c":null}`, `"prompt_task":["not","a","name"],"tool":3`,
	} {
		if !bytes.Contains(p.Canonical, []byte(part)) {
			t.Errorf("%s is not in %s", part, p.Canonical)
		}
	}
}

// TestOldestVersion: the schema of the oldest version is made of the newest one by leaving out what is
// younger. It has the structure of the published file of 1.4.0.
func TestOldestVersion(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/schema/promptpack.schema-1.4.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	newest, err := readSchema(newestFile)
	if err != nil {
		t.Fatal(err)
	}
	var made map[string]any
	text, err := json.Marshal(asOf(newest, "1.4.0"))
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name := range made["$defs"].(map[string]any) {
		if file["$defs"].(map[string]any)[name] == nil {
			delete(made["$defs"].(map[string]any), name) // of younger versions, and nothing refers to it
		}
	}
	prose(file)
	prose(made)
	for _, key := range []string{"properties", "required", "additionalProperties"} {
		if !reflect.DeepEqual(file[key], made[key]) {
			t.Errorf("%s: %v\nand %v", key, file[key], made[key])
		}
	}
	for name, def := range file["$defs"].(map[string]any) {
		if got := made["$defs"].(map[string]any)[name]; !reflect.DeepEqual(def, got) {
			t.Errorf("%s: %v\nand %v", name, def, got)
		}
	}
}

// prose removes what only people read.
func prose(node any) {
	switch node := node.(type) {
	case []any:
		for _, v := range node {
			prose(v)
		}
	case map[string]any:
		for key, v := range node {
			if key == "properties" || key == "$defs" {
				for _, p := range v.(map[string]any) {
					prose(p)
				}
				continue
			}
			if text, ok := v.(string); ok && (key == "description" || key == "title" || key == sinceKey || text == "") {
				delete(node, key)
				continue
			}
			if key == "examples" || key == "default" || key == "deprecated" {
				delete(node, key)
				continue
			}
			prose(v)
		}
	}
}
