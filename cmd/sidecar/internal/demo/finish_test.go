package demo

import (
	"fmt"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// story is a run as it has to be, for a workspace with the given head.
func story(head string) (*pawlv1.Run, []*pawlv1.Record) {
	run := &pawlv1.Run{Status: pawlv1.RunStatus_RUN_STATUS_COMPLETED, TotalVisits: 7, ToolCalls: 4}
	report := func(passed int) *pawlv1.ArtifactWrite {
		return &pawlv1.ArtifactWrite{Name: "test_report", Value: &pawlv1.ArtifactValue{
			Value: &pawlv1.ArtifactValue_Json{Json: fmt.Sprintf(`{"passed":%d,"total":5}`, passed)},
		}}
	}
	var records []*pawlv1.Record
	for _, t := range []struct {
		event, to string
		write     *pawlv1.ArtifactWrite
	}{
		{"", "plan", nil},
		{"PlanReady", "implement", nil},
		{"CodeReady", "test", textArtifact("commit_sha", "first")},
		{"TestsFailed", "implement", report(2)},
		{"CodeReady", "test", textArtifact("commit_sha", head)},
		{"TestsPassed", "review", report(5)},
		{"Approved", "done", nil},
	} {
		body := &pawlv1.Transition{Event: t.event, ToState: t.to}
		if t.write != nil {
			body.ArtifactsWritten = []*pawlv1.ArtifactWrite{t.write}
		}
		records = append(records, &pawlv1.Record{Body: &pawlv1.Record_Transition{Transition: body}})
	}
	return run, records
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*demo, *pawlv1.Run, []*pawlv1.Record)
		says   string
	}{
		"as it has to be":    {func(*demo, *pawlv1.Run, []*pawlv1.Record) {}, ""},
		"another event":      {func(_ *demo, _ *pawlv1.Run, r []*pawlv1.Record) { r[3].GetTransition().Event = "TestsPassed" }, "transitions are"},
		"a lost transition":  {func(_ *demo, _ *pawlv1.Run, r []*pawlv1.Record) { r[6].Body = nil }, "transitions are"},
		"the same commit":    {func(_ *demo, _ *pawlv1.Run, r []*pawlv1.Record) { r[4].GetTransition().ArtifactsWritten = nil }, "commits are"},
		"another end":        {func(_ *demo, r *pawlv1.Run, _ []*pawlv1.Record) { r.Status = pawlv1.RunStatus_RUN_STATUS_FAILED }, "status is"},
		"a doubled visit":    {func(_ *demo, r *pawlv1.Run, _ []*pawlv1.Record) { r.TotalVisits = 8 }, "total_visits is 8"},
		"a repeated tool":    {func(d *demo, _ *pawlv1.Run, _ []*pawlv1.Record) { d.tools.executed = 5 }, "4 tool calls were counted, 5 executed"},
		"nothing restored":   {func(d *demo, _ *pawlv1.Run, _ []*pawlv1.Record) { d.restored = 0 }, "0 steps were answered"},
		"a changed artifact": {func(d *demo, _ *pawlv1.Run, _ []*pawlv1.Record) { _ = d.tools.workspace.WriteFile("x", "y") }, "the workspace is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			head, err := w.TreeHash()
			if err != nil {
				t.Fatal(err)
			}
			d := &demo{tools: &tools{workspace: w, executed: 4}, restored: 1}
			run, records := story(head)
			tc.change(d, run, records)
			err = d.checkRun(run, records)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("judged %v, want %q", err, tc.says)
			}
		})
	}
}

func TestTheModelsClaimIsCompared(t *testing.T) {
	t.Parallel()
	for result, events := range map[string][2]string{
		`{"passed":5,"total":5}`: {"TestsPassed", "TestsFailed"},
		`{"passed":2,"total":5}`: {"TestsFailed", "TestsPassed"},
	} {
		if err := checkAgreement(events[0], []byte(result)); err != nil {
			t.Error(err)
		}
		if checkAgreement(events[1], []byte(result)) == nil {
			t.Errorf("%s is taken for %s", events[1], result)
		}
	}
}

func TestPromptHasToKnowTheReport(t *testing.T) {
	t.Parallel()
	turn := &pawlv1.GetTurnResponse{Turn: &pawlv1.TurnRef{State: "implement", Visit: 2}, SystemPrompt: "Test results:"}
	if promptKnows(turn) == nil {
		t.Error("a prompt without the report was taken")
	}
	turn.SystemPrompt += ` {"passed":2}`
	if err := promptKnows(turn); err != nil {
		t.Error(err)
	}
}

func TestRecordedModelFitsThePack(t *testing.T) {
	t.Parallel()
	m, err := loadModel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.answer("implement", 2); err != nil {
		t.Error(err)
	}
	if _, err := m.answer("implement", 3); err == nil {
		t.Error("a third visit was never recorded")
	}
}

func TestToolsAreReal(t *testing.T) {
	t.Parallel()
	d := &tools{workspace: newWorkspace(t)}
	if _, err := d.call(t.Context(), "write_file", []byte(`{"path":"a/b.go","content":"package a"}`)); err != nil {
		t.Fatal(err)
	}
	got, err := d.call(t.Context(), "read_file", []byte(`{"path":"a/b.go"}`))
	if err != nil || string(got) != `{"content":"package a"}` {
		t.Errorf("%s, %v", got, err)
	}
	for tool, payload := range map[string]string{"rm": "{}", "read_file": `{"path":"../x"}`, "write_file": `[]`, "run_tests": `{"test_path":"-h"}`} {
		if _, err := d.call(t.Context(), tool, []byte(payload)); err == nil {
			t.Errorf("%s %s was run", tool, payload)
		}
	}
	if d.executed != 6 {
		t.Errorf("%d executions were counted", d.executed)
	}
}
