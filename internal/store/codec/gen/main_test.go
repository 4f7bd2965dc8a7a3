package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCommittedCodeIsCurrent: nobody changed the schema, a type or the table without
// `make generate`, and the output does not depend on the run.
func TestCommittedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../messages.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := generate(); !bytes.Equal(got, want) {
			t.Fatal("messages.gen.go is not what the generator writes: make generate")
		}
	}
}

func TestNamesOfTheSchemaBecomeGo(t *testing.T) {
	t.Parallel()
	if got := camel("emit_event"); got != "EmitEvent" {
		t.Errorf("camel: %s", got)
	}
	if got := words("StepHolder"); got != "step holder" {
		t.Errorf("words: %s", got)
	}
}
