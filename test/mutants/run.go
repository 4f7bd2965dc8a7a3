package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// outcome is what became of a mutant.
type outcome int

const (
	// killed means that a test failed.
	killed outcome = iota
	// survived means that all tests passed.
	survived
	// slow means that a test did not end within the limit. It counts as killed, but a person should look at it.
	slow
	// unbuilt means that the mutant does not compile, so it proves nothing about the guard.
	unbuilt
)

func (o outcome) String() string { return [...]string{"killed", "SURVIVED", "slow", "unbuilt"}[o] }

// bench runs tests against mutants.
type bench struct {
	root string
	// limit bounds the tests of one package.
	limit time.Duration
}

// try runs the tests of a mutant until one package notices; said is what that one printed.
func (b bench) try(ctx context.Context, m mutant) (o outcome, said []byte, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return 0, nil, err
	}
	defer os.RemoveAll(dir)
	changed := filepath.Join(dir, "changed.go")
	replace := map[string]map[string]string{"Replace": {filepath.Join(b.root, m.file): changed}}
	index, err := json.Marshal(replace)
	if err != nil {
		return 0, nil, err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := errors.Join(os.WriteFile(changed, m.source, 0o600), os.WriteFile(overlay, index, 0o600)); err != nil {
		return 0, nil, err
	}
	for _, tests := range m.area.tests {
		o, said, err = b.test(ctx, m, overlay, tests)
		if err != nil || o != survived {
			return o, said, err
		}
	}
	return survived, nil, nil
}

func (b bench) test(ctx context.Context, m mutant, overlay, tests string) (outcome, []byte, error) {
	args := []string{"test", "-overlay", overlay, "-failfast", "-count=1", "-timeout", b.limit.String()}
	if m.area.run != "" {
		args = append(args, "-run", m.area.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+tests)...)
	cmd.Dir = b.root
	if m.area.postgres {
		cmd.Env = append(os.Environ(), "PAWL_POSTGRES=1")
	}
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return 0, nil, ctx.Err()
	}
	var ended *exec.ExitError
	switch {
	case err == nil:
		return survived, nil, nil
	case !errors.As(err, &ended):
		return 0, nil, err
	case bytes.Contains(said, []byte("[build failed]")) || bytes.Contains(said, []byte("[setup failed]")):
		return unbuilt, said, nil
	case bytes.Contains(said, []byte("panic: test timed out")):
		return slow, said, nil
	}
	return killed, said, nil
}

// firstFailure is the first test that failed, or the panic that ended all of them.
func firstFailure(said []byte) (by string) {
	for line := range strings.Lines(string(said)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
		if by == "" && strings.HasPrefix(line, "panic: ") {
			by = line
		}
	}
	return by
}
