package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action string `json:"Action"`
	Test   string `json:"Test"`
	Output string `json:"Output"`
}

// trial is what became of one test.
type trial struct {
	// faults were tried; violations of them broke the promise.
	faults, violations int
	// missing says why the test did not run here; empty if it ran.
	missing string
}

// seen is the output of one test or case while its package ran.
type seen struct {
	end      string
	tried    int
	hasCount bool
	notRun   string
	children bool
}

var (
	triedLine  = regexp.MustCompile(`tried: (\d+) `)
	notRunLine = regexp.MustCompile(`NOT RUN: (.*)`)
)

// tests runs the named tests of one package and returns their results. The output of failing tests goes to out. An
// error means that no test ran: the package does not build, or go ended without output.
func tests(dir string, names []string, env []string, out io.Writer) (map[string]trial, error) {
	pattern := "^(" + strings.Join(names, "|") + ")$"
	cmd := exec.CommandContext(context.Background(), "go", "test", "-json", "-count=1", "-timeout=10m", "-run", pattern, "./"+dir)
	cmd.Env = append(os.Environ(), env...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	heard, said := listen(pipe)
	err = cmd.Wait()
	said += failure.String()
	if err != nil {
		fmt.Fprint(out, said)
	}
	return judge(dir, names, heard, err)
}

// errUnnamed means that the package fails, but none of the named tests does.
var errUnnamed = errors.New("it fails and none of its named tests says so")

// judge says what became of the named tests of a package that ended with err.
func judge(dir string, names []string, heard map[string]*seen, err error) (map[string]trial, error) {
	got, violations := map[string]trial{}, 0
	for _, name := range names {
		if s := heard[name]; s == nil || s.end == "" {
			return nil, errors.Join(fmt.Errorf("%s: %s did not end", dir, name), err)
		}
		got[name] = sum(name, heard)
		violations += got[name].violations
	}
	if err != nil && violations == 0 {
		return nil, fmt.Errorf("%s: %w: %w", dir, errUnnamed, err)
	}
	return got, nil
}

// listen reads the events of one package, and keeps all that was printed.
func listen(r io.Reader) (map[string]*seen, string) {
	heard, said := map[string]*seen{}, strings.Builder{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(&said, lines.Text())
			continue
		}
		said.WriteString(e.Output)
		if e.Test == "" {
			continue
		}
		if heard[e.Test] == nil {
			heard[e.Test] = &seen{}
			if i := strings.LastIndexByte(e.Test, '/'); i > 0 && heard[e.Test[:i]] != nil {
				heard[e.Test[:i]].children = true
			}
		}
		heard[e.Test].record(e)
	}
	return heard, said.String()
}

func (s *seen) record(e event) {
	switch e.Action {
	case "pass", "fail", "skip":
		s.end = e.Action
	case "output":
		if m := triedLine.FindStringSubmatch(e.Output); m != nil {
			n, _ := strconv.Atoi(m[1])
			s.tried, s.hasCount = s.tried+n, true
		}
		if m := notRunLine.FindStringSubmatch(e.Output); m != nil {
			s.notRun = m[1]
		}
	}
}

// sum counts a test with its cases.
func sum(name string, heard map[string]*seen) trial {
	var t trial
	tried, says, cases := 0, false, 0
	for other, s := range heard {
		if other != name && !strings.HasPrefix(other, name+"/") {
			continue
		}
		tried, says = tried+s.tried, says || s.hasCount
		switch {
		case s.notRun != "":
			t.missing = s.notRun
		case s.children:
		case s.end == "fail":
			cases++
			t.violations++
		case s.end == "pass":
			cases++
		}
	}
	if heard[name].end == "skip" && t.missing == "" {
		t.missing = "skipped"
	}
	if heard[name].end == "fail" {
		t.violations, t.missing = max(t.violations, 1), ""
	}
	if t.faults = cases; says {
		t.faults = tried
	}
	if t.missing != "" {
		t.faults = 0
	}
	return t
}

var simLine = regexp.MustCompile(`(?m)^(\d+) seeds, .* (\d+) violations$`)

// simulation runs the simulator: a seed is a fault, one that ends with a violation is one.
func simulation(env []string, out io.Writer) (trial, error) {
	cmd := exec.CommandContext(context.Background(), ".ci/sim")
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	m := simLine.FindSubmatch(said)
	if m == nil {
		return trial{}, fmt.Errorf("the simulator says nothing of its seeds: %w\n%s", errors.Join(err, errors.New("see above")), said)
	}
	faults, _ := strconv.Atoi(string(m[1]))
	violations, _ := strconv.Atoi(string(m[2]))
	if err != nil {
		violations = max(violations, 1)
	}
	if violations > 0 {
		fmt.Fprintf(out, "%s", said)
	}
	return trial{faults: faults, violations: violations}, nil
}
