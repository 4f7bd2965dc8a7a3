package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
)

// TestReport is the result of run_tests, and the artifact test_report.
type TestReport struct {
	Passed int `json:"passed"`
	Total  int `json:"total"`
	// Failures name the tests that failed, with their messages.
	Failures []TestFailure `json:"failures"`
}

// TestFailure is one failed test.
type TestFailure struct {
	Test    string `json:"test"`
	Message string `json:"message"`
}

// OK reports whether there were tests and all passed.
func (r TestReport) OK() bool { return r.Total > 0 && r.Passed == r.Total }

// testEvent is one line of `go test -json`.
type testEvent struct {
	Action, Test, Output string
}

// RunTests runs `go test` on a package of the workspace, given by its relative path. It needs no network. Failing tests are part of the
// report. A module that does not compile is an error.
func (w *Workspace) RunTests(ctx context.Context, pkg string) (TestReport, error) {
	if err := localPackage(pkg); err != nil {
		return TestReport{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", pkg)
	cmd.Dir = w.Dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "GOTOOLCHAIN=local")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return TestReport{}, fmt.Errorf("run_tests: %w", err)
	}
	report, parseErr := parseReport(stdout.Bytes())
	if parseErr != nil {
		return TestReport{}, fmt.Errorf("run_tests: %w", parseErr)
	}
	if report.Total == 0 {
		return TestReport{}, fmt.Errorf("run_tests: no test ran (%w): %s%s", err, stderr.Bytes(), stdout.Bytes())
	}
	return report, nil
}

// localPackage returns an error if the argument of a tool is a flag or a path outside the workspace.
func localPackage(pkg string) error {
	clean := path.Clean(strings.TrimSuffix(pkg, "/..."))
	if !strings.HasPrefix(pkg, "./") || clean == ".." || strings.HasPrefix(clean, "../") {
		return fmt.Errorf("run_tests: test_path %q is none of ./... or ./DIR", pkg)
	}
	return nil
}

func parseReport(stream []byte) (TestReport, error) {
	report := TestReport{Failures: []TestFailure{}}
	output := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e testEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		report.add(e, output)
	}
	return report, lines.Err()
}

func (r *TestReport) add(e testEvent, output map[string]string) {
	switch e.Action {
	case "output":
		if text := strings.TrimSpace(e.Output); text != "" && !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") {
			output[e.Test] += text + "\n"
		}
	case "pass":
		r.Passed, r.Total = r.Passed+1, r.Total+1
	case "fail":
		r.Total++
		r.Failures = append(r.Failures, TestFailure{Test: e.Test, Message: strings.TrimSpace(output[e.Test])})
	}
}
