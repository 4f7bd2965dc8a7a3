package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCommittedCodeIsCurrent: the committed code is the output of the generator for the present schema, types
// and table. Two runs of the generator have the same output.
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
	if got := camelCase("emit_event"); got != "EmitEvent" {
		t.Errorf("camel: %s", got)
	}
	if got := spacedWords("StepHolder"); got != "step holder" {
		t.Errorf("words: %s", got)
	}
}
