package main

import "testing"

// TestEveryFaultCanBeBuilt: the texts that the simulator exchanges stand where it says.
func TestEveryFaultCanBeBuilt(t *testing.T) {
	t.Parallel()
	for i := range mutants {
		o := overlay{dir: t.TempDir(), module: "../../.."}
		if err := o.store(); err != nil {
			t.Fatal(err)
		}
		if err := o.mutate(mutants[i].name); err != nil {
			t.Errorf("%s: %v", mutants[i].name, err)
		}
	}
}

// TestRuntimeIsKnown: the local version of Go has the texts that the simulator exchanges.
func TestRuntimeIsKnown(t *testing.T) {
	t.Parallel()
	o := overlay{dir: t.TempDir(), module: "../../.."}
	if err := o.runtime(); err != nil {
		t.Fatal(err)
	}
}
