package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// These texts tell the user which parts of the demo are recorded and which are real.
var (
	recordedParts = []string{"the model's answers (text, tool calls, events)"}
	realParts     = []string{
		"the sidecar: a process of its own on embedded Badger, every commit synced, spoken to over loopback gRPC",
		"write_file: writes Go source into a workspace",
		"run_tests: runs go test there",
		"commit_sha: the workspace's content as git's tree hash",
		"the crash: SIGKILL, and a new process on the same data",
	}
)

// columns are the artifacts that the trace shows. They are those of the trace in PromptPack RFC 0009.
var columns = []string{"commit_sha", "test_report"}

func (d *demo) printIntroduction() {
	if d.Printer.JSON {
		return
	}
	d.Printer.Printf("%s\n\n", d.Printer.Bold("RFC 0009's codegen loop, with a crash in the middle"))
	for _, part := range recordedParts {
		d.Printer.Printf("  recorded  %s\n", part)
	}
	for _, part := range realParts {
		d.Printer.Printf("  real      %s\n", part)
	}
	d.Printer.Printf("\n")
}

// finish checks the end of the run, stops the sidecar, checks its data and prints the trace.
func (d *demo) finish(ctx context.Context) error {
	got, err := d.runs().GetRun(ctx, &pawlv1.GetRunRequest{RunId: d.runID, IncludeArtifacts: true})
	if err != nil {
		return err
	}
	records, err := d.records(ctx)
	if err != nil {
		return err
	}
	if err := d.checkRun(got.GetRun(), records); err != nil {
		return err
	}
	process := d.process
	d.process = nil
	if err := process.stop(); err != nil {
		return err
	}
	if err := d.checkData(ctx); err != nil {
		return err
	}
	if d.Printer.JSON {
		return d.printJSON(got, records)
	}
	d.printTrace(got.GetRun(), records)
	return nil
}

// expected are the events of the demo's run, in order, each with the state that the run enters and the test result at
// that time.
var expected = []string{
	" plan -",
	"PlanReady implement -",
	"CodeReady test -",
	"TestsFailed implement 2/5",
	"CodeReady test 2/5",
	"TestsPassed review 5/5",
	"Approved done 5/5",
}

// checkRun returns an error if the run differs from the expected run.
func (d *demo) checkRun(run *pawlv1.Run, records []*pawlv1.Record) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	events, commits := history(records)
	check(slices.Equal(events, expected), "transitions are\n  %s\nnot\n  %s", strings.Join(events, "\n  "), strings.Join(expected, "\n  "))
	check(len(commits) == 2 && commits[0] != commits[1], "commits are %v, not two different ones", commits)
	check(run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_COMPLETED, "status is %s %s", run.GetStatus(), run.GetReason())
	check(run.GetTotalVisits() == int32(len(expected)), "total_visits is %d", run.GetTotalVisits())
	check(int(run.GetToolCalls()) == d.tools.executed, "%d tool calls were counted, %d executed", run.GetToolCalls(), d.tools.executed)
	check(d.restored == 1, "%d steps were answered from the journal, not 1", d.restored)
	head, err := d.tools.workspace.TreeHash()
	check(err == nil && len(commits) > 0 && head == commits[len(commits)-1], "the workspace is %s (%v), the last commit_sha %v", head, err, commits)
	return errors.Join(faults...)
}

// history reads the transitions of a run. It returns the events with their targets and test results, and the commit
// hashes without repeats, both in order.
func history(records []*pawlv1.Record) (events, commits []string) {
	tests := "-"
	for _, r := range records {
		for _, w := range writesOf(r) {
			switch w.GetName() {
			case "commit_sha":
				if text := w.GetValue().GetText(); !slices.Contains(commits, text) {
					commits = append(commits, text)
				}
			case "test_report":
				var report TestReport
				if json.Unmarshal([]byte(w.GetValue().GetJson()), &report) == nil {
					tests = fmt.Sprintf("%d/%d", report.Passed, report.Total)
				}
			}
		}
		if t := r.GetTransition(); t != nil {
			events = append(events, t.GetEvent()+" "+t.GetToState()+" "+tests)
		}
	}
	return events, commits
}

// writesOf lists a record's artifact writes.
func writesOf(r *pawlv1.Record) []*pawlv1.ArtifactWrite {
	return append(slices.Clone(r.GetTurnCompleted().GetArtifactsWritten()), r.GetTransition().GetArtifactsWritten()...)
}

// checkData checks every invariant of the store after the demo.
func (d *demo) checkData(ctx context.Context) error {
	out, err := checkStore(ctx, d.Binary, d.place())
	if err == nil {
		d.printLine("check", "%s", out)
	}
	return err
}

// checkStore runs `pawl check` on a store and returns its output.
func checkStore(ctx context.Context, binary string, place []string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, append([]string{"check"}, place...)...)
	cmd.Args[0] = "pawl"
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pawl check: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (d *demo) printTrace(run *pawlv1.Run, records []*pawlv1.Record) {
	p := d.Printer
	p.Printf("\n")
	trace := output.NewTrace(columns, run.GetArtifacts())
	for _, r := range records {
		trace.Add(r)
	}
	trace.Print(p)
	p.Printf("\n%d tool calls were executed and %d counted; the crash lost, doubled and changed nothing.\n", d.tools.executed, run.GetToolCalls())
	if !d.Keep {
		p.Printf("\nNext: bin/pawl demo --keep leaves data and workspace to look at.\n")
		return
	}
	p.Printf("\nNext, with what was kept in %s:\n", d.Dir)
	p.Printf("  %s serve --data %s\n", d.Binary, filepath.Join(d.Dir, "data"))
	p.Printf("  %s runs trace %s   (in another terminal; --all for every record)\n", d.Binary, d.runID)
	p.Printf("  %s graph %s\n", d.Binary, d.pack)
	p.Printf("  cd %s && go test ./... && git init -q && git add . && git write-tree\n", d.tools.workspace.Dir)
}

func (d *demo) printJSON(got *pawlv1.GetRunResponse, records []*pawlv1.Record) error {
	doc := output.Object{
		{Key: "ok", Value: true},
		{Key: "recorded", Value: recordedParts},
		{Key: "real", Value: realParts},
		{Key: "crash", Value: d.crash},
		{Key: "tools_executed", Value: d.tools.executed},
		{Key: "steps_replayed", Value: d.restored},
		{Key: "run", Value: output.RunWith(got.GetRun(), got.GetArtifacts())},
		{Key: "records", Value: output.Messages(records)},
	}
	if d.Keep {
		doc = doc.WithField("dir", d.Dir)
	}
	return output.WriteJSON(d.Printer.Out, doc)
}
