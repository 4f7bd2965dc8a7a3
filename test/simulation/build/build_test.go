package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestEveryFaultCanBeBuilt: the source files contain the texts that the simulator replaces.
func TestEveryFaultCanBeBuilt(t *testing.T) {
	t.Parallel()
	for _, m := range all() {
		o := overlay{dir: t.TempDir(), module: "../../.."}
		if err := errors.Join(o.store(), o.peers()); err != nil {
			t.Fatal(err)
		}
		if err := o.mutate(m.name); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestRuntimeIsKnown: the local version of Go contains the texts that the simulator replaces.
func TestRuntimeIsKnown(t *testing.T) {
	t.Parallel()
	o := overlay{dir: t.TempDir(), module: "../../.."}
	if err := o.runtime(); err != nil {
		t.Fatal(err)
	}
}

// TestStoreBuildsOverTheDisk: the packages that replace Badger and the system in the simulator have
// everything that the store calls. The test does not build the simulator itself, because this would compile
// Go's runtime.
func TestStoreBuildsOverTheDisk(t *testing.T) {
	t.Parallel()
	o := overlay{dir: t.TempDir(), module: "../../..", Replace: map[string]string{}}
	if err := errors.Join(o.store(), o.peers()); err != nil {
		t.Fatal(err)
	}
	index, err := o.write()
	if err != nil {
		t.Fatal(err)
	}
	dependOn(t, "../badger/*.go", "../disk/*.go", "../hostos/*.go", "../hostunix/*.go", "../pg/*.go", "../pipes/*.go")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", index, "./internal/store/...", "./internal/cluster/transport")
	cmd.Dir = o.module
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// dependOn opens files that another process compiles. So go test does not reuse a result from before a change
// of these files.
func dependOn(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}
