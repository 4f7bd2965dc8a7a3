package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
)

const (
	packDir    = "../../testdata/packs"
	answersDir = "../../testdata/answers"
)

// played is what `pawl run -o json` printed, as far as these tests read it.
type played struct {
	Run struct {
		Status, Reason, State, Agent string
		Seq                          uint64
		Visits                       map[string]int
		TotalVisits                  int            `json:"total_visits"`
		ToolCalls                    int            `json:"tool_calls"`
		Artifacts                    map[string]any `json:"artifacts"`
	}
	Records []struct {
		Seq        uint64
		Kind       string
		Transition struct {
			Redirects []struct{ Guard string }
		}
	}
	Warnings []string
	Error    *output.Problem
}

// typed runs one command line in this process.
func typed(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), &output.Printer{Out: &out, Err: &errs}, args)
	return code, out.String(), errs.String()
}

// headers reads "# key: value" lines at the top of a file.
func headers(t *testing.T, path string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		if key, value, ok := strings.Cut(comment, ":"); ok {
			found[key] = strings.TrimSpace(value)
		}
	}
	return found
}

// play drives a pack with one of the answers files.
func play(t *testing.T, packPath, answersPath string) played {
	t.Helper()
	args := []string{"run", packPath, "--answers", answersPath, "-o", "json"}
	args = append(args, strings.Fields(headers(t, answersPath)["flags"])...)
	code, out, errs := typed(t, args...)
	var got played
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %q, stderr %q", err, out, errs)
	}
	if code != output.ExitOK || got.Error != nil {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	return got
}

// TestPacksEnd drives every example pack into each of its ends.
func TestPacksEnd(t *testing.T) {
	t.Parallel()
	packs, err := filepath.Glob(filepath.Join(packDir, "*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("no packs: %v", err)
	}
	for _, path := range packs {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scripts, err := filepath.Glob(filepath.Join(answersDir, name+".*.yaml"))
			if err != nil || len(scripts) == 0 {
				t.Fatalf("no answers for %s: %v", name, err)
			}
			var reached []string
			for _, script := range scripts {
				reached = append(reached, checkPlayed(t, path, script)...)
			}
			for _, end := range endsOf(t, path) {
				if !slices.Contains(reached, end) {
					t.Errorf("no answers file reaches %q; reached: %q", end, reached)
				}
			}
		})
	}
}

// checkPlayed plays one script, compares its end and names what it reached.
func checkPlayed(t *testing.T, packPath, script string) []string {
	t.Helper()
	got := play(t, packPath, script)
	run := got.Run
	end := run.Status
	if run.Status != "COMPLETED" {
		end += " " + run.Reason
	}
	if want := headers(t, script)["expect"]; end != want {
		t.Errorf("%s ended %q, want %q", filepath.Base(script), end, want)
	}
	for _, w := range got.Warnings {
		if strings.Contains(w, "left over") || strings.Contains(w, "had ended") || strings.Contains(w, "refused") {
			t.Errorf("%s: %s", filepath.Base(script), w)
		}
	}
	total := 0
	for _, n := range run.Visits {
		total += n
	}
	if total != run.TotalVisits || int(run.Seq) != len(got.Records) {
		t.Errorf("%s: visits %v, total %d, seq %d, %d records", filepath.Base(script), run.Visits, run.TotalVisits, run.Seq, len(got.Records))
	}
	reached := []string{end, "agent " + run.Agent}
	if run.Status == "COMPLETED" {
		reached = append(reached, "terminal "+run.State)
	}
	for i, r := range got.Records {
		if r.Seq != uint64(i+1) {
			t.Errorf("%s: record %d has seq %d", filepath.Base(script), i+1, r.Seq)
		}
		for _, redirect := range r.Transition.Redirects {
			reached = append(reached, "forced exit "+redirect.Guard)
		}
	}
	return reached
}

// endsOf lists what a pack's runs can end with: terminal states, forced exits,
// guards without exit, budgets, and the agents.
func endsOf(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, found, err := pack.Load(content, pack.Options{})
	if err != nil || p == nil {
		t.Fatalf("load: %v %v", err, found)
	}
	var ends []string
	for _, member := range p.Members() {
		ends = append(ends, "agent "+member)
	}
	if p.Doc.Workflow == nil {
		return ends
	}
	for name, state := range p.Doc.Workflow.States {
		switch {
		case state.Terminal || len(state.OnEvent) == 0:
			ends = append(ends, "terminal "+name)
		case state.MaxVisits > 0 && state.OnMaxVisits != nil:
			ends = append(ends, "forced exit max_visits:"+name)
		case state.MaxVisits > 0:
			ends = append(ends, "BUDGET_EXHAUSTED max_visits:"+name)
		}
	}
	return append(ends, budgetsOf(p)...)
}

// budgetsOf lists the budgets that a run can use up: a number of visits that the
// loop itself never comes to is none.
func budgetsOf(p *pack.Pack) []string {
	t := p.Analyze()
	if !t.Bounded {
		return []string{"BUDGET_EXHAUSTED max_transitions", "CANCELLED cancelled"}
	}
	if p.Doc.Workflow.Engine == nil || p.Doc.Workflow.Engine.Budget == nil {
		return nil
	}
	b := p.Doc.Workflow.Engine.Budget
	var ends []string
	if b.MaxTotalVisits != nil && slices.Contains(t.BoundedBy, "max_total_visits") {
		ends = append(ends, "BUDGET_EXHAUSTED max_total_visits")
	}
	if b.MaxToolCalls != nil {
		ends = append(ends, "BUDGET_EXHAUSTED max_tool_calls")
	}
	if b.MaxWallTimeSec != nil {
		ends = append(ends, "BUDGET_EXHAUSTED max_wall_time_sec")
	}
	return ends
}
