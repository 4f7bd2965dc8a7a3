package archtest

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestImports holds the module to the import table.
func TestImports(t *testing.T) {
	t.Parallel()
	found, err := check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range found {
		t.Error(line)
	}
}

// TestCheckFinds proves that the check can fail: each module has one fault.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, source, want string }{
		"pure package imports ours": {
			"internal/runtime/machine/a.go", `package machine; import _ "` + module + `internal/pack"`,
			"may not import " + module + "internal/pack",
		},
		"pure package reads the environment": {
			"internal/policy/a.go", `package policy; import _ "os/exec"`,
			"may not import os/exec",
		},
		"pure package knows contexts": {
			"internal/prompt/a.go", `package prompt; import _ "context"`,
			"may not import context",
		},
		"pure package takes third-party code": {
			"internal/runtime/machine/a.go", `package machine; import _ "google.golang.org/protobuf/proto"`,
			"takes no third-party code",
		},
		"pure package reads the clock": {
			"internal/runtime/machine/a.go", `package machine; import "time"; var x = time.Now()`,
			"may not use time.Now",
		},
		"pure package reads the clock under another name": {
			"internal/policy/sub/a.go", `package sub; import tm "time"; func f() { g := tm.Sleep; g(1) }`,
			"may not use time.Sleep",
		},
		"pure package hides the clock": {
			"internal/policy/a.go", `package policy; import . "time"; var x = Now()`,
			"may not dot-import time",
		},
		"runtime imports the store": {
			"internal/runtime/a.go", `package runtime; import _ "` + module + `internal/store/codec"`,
			"may not import " + module + "internal/store/codec",
		},
		"runtime imports generated code": {
			"internal/runtime/sub/a.go", `package sub; import _ "` + module + `gen/go/pawl/v1"`,
			"may not import " + module + "gen/go/pawl/v1",
		},
		"runtime knows gRPC": {
			"internal/runtime/a.go", `package runtime; import _ "google.golang.org/grpc/codes"`,
			"stop at the edges",
		},
		"the edges import each other": {
			"internal/a2a/a.go", `package a2a; import _ "` + module + `internal/grpcapi"`,
			"only internal/app, internal/bench may",
		},
		"the store imports its user": {
			"internal/store/a.go", `package store; import _ "` + module + `internal/runtime"`,
			"the import table does not allow it",
		},
		"Badger outside the store": {
			"internal/grpcapi/a.go", `package grpcapi; import _ "github.com/dgraph-io/badger/v4"`,
			"may assume Badger",
		},
		"Badger in a room of the store": {
			"internal/store/check/a.go", `package check; import _ "github.com/dgraph-io/badger/v4"`,
			"may assume Badger",
		},
		"Badger below the contract": {
			"internal/store/kv/a.go", `package kv; import _ "github.com/dgraph-io/badger/v4/y"`,
			"may assume Badger",
		},
		"PostgreSQL in a room of the store": {
			"internal/store/check/a.go", `package check; import _ "github.com/jackc/pgx/v5"`,
			"may assume PostgreSQL",
		},
		"the engine of tests in the product": {
			"internal/store/a.go", `package store; import _ "` + module + `internal/store/memkv"`,
			"only tests may",
		},
		"test doubles in the product": {
			"internal/app/a.go", `package app; import _ "` + module + `internal/testkit"`,
			"only internal/testkit, internal/testkit/realstore, e2e may",
		},
		"a layer without a rule": {
			"internal/novel/a.go", `package novel`,
			"no rule for internal/novel",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := check(fstest.MapFS{c.file: {Data: []byte(c.source)}})
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || !strings.Contains(found[0], c.want) || !strings.HasPrefix(found[0], c.file) {
				t.Fatalf("found %q, want one line of %s with %q", found, c.file, c.want)
			}
		})
	}
}

// TestCheckAllows proves that the check does not fail for everything.
func TestCheckAllows(t *testing.T) {
	t.Parallel()
	found, err := check(fstest.MapFS{
		"internal/runtime/machine/a.go":      {Data: []byte(`package machine; import "time"; var d = time.Second`)},
		"internal/runtime/machine/a_test.go": {Data: []byte(`package machine; import _ "os"`)},
		"internal/grpcapi/a.go": {Data: []byte(`package grpcapi; import (
			_ "context"
			_ "google.golang.org/grpc"
			_ "` + module + `gen/go/pawl/v1"
			_ "` + module + `internal/runtime"
			_ "` + module + `internal/runtime/machine"
		)`)},
		"internal/store/codec/a.go": {Data: []byte(`package codec; import _ "` + module + `internal/store/storagepb"`)},
		"internal/app/a.go":         {Data: []byte(`package app; import _ "` + module + `internal/store"`)},
		"tools/a.go":                {Data: []byte(`package nothing like Go`)},
		".hidden/a.go":              {Data: []byte(`package nothing like Go`)},
	})
	if err != nil || len(found) != 0 {
		t.Fatalf("found %q, error %v", found, err)
	}
}
