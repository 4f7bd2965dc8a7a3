package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestDeniedToolsAreLogged: once for each pack and tool, with what admits the tool; what is
// no refusal by the policy of tools is not.
func TestDeniedToolsAreLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := NewRunLog(slog.New(slog.NewTextHandler(&out, nil)))
	refuse := func(pack, tool, code, message string) {
		body := &machine.StepRejected{Tool: tool, Denial: machine.Denial{Code: code, Message: message}}
		log.OnCommit(&runtime.Commit{Batch: &machine.Batch{
			State:   &machine.State{RunID: "run", PackID: pack, Status: machine.Running},
			Records: []machine.Record{{Body: &machine.StepCancelled{}}, {Body: body}},
		}})
	}
	for range 3 {
		refuse("shop", "charge", machine.ToolNotAllowed, `the operator's allowlist does not admit tool "charge" (serve --allow-tool charge)`)
		refuse("bank", "charge", machine.ToolNotAllowed, `the allowlist of the run that delegated does not admit tool "charge"`)
		refuse("shop", "mail", machine.ToolBlocked, `the prompt's blocklist names tool "mail"`)
		refuse("shop", "add", "PAYLOAD_INVALID", "payload/a: want a number")
	}
	lines := logLines(log, &out)
	want := [][]string{
		{"level=WARN", "pack=shop", "tool=charge", "TOOL_NOT_ALLOWED", "serve --allow-tool charge", "run"},
		{"pack=bank", "tool=charge", "the sidecar of the run that delegated with --allow-tool"},
		{"pack=shop", "tool=mail", "TOOL_BLOCKED", "tool_policy.blocklist"},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(lines), len(want), lines)
	}
	for i, words := range want {
		for _, word := range words {
			if !strings.Contains(lines[i], word) {
				t.Errorf("%q is not in %s", word, lines[i])
			}
		}
	}
}

// TestDeniedToolOfAFullLog: a warning for which the log has no room is made at the next call.
func TestDeniedToolOfAFullLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := NewRunLog(slog.New(slog.NewTextHandler(&out, nil)))
	refuse := func() {
		log.OnCommit(&runtime.Commit{Batch: &machine.Batch{State: &machine.State{PackID: "shop", Status: machine.Running}, Records: []machine.Record{
			{Body: &machine.StepRejected{Tool: "charge", Denial: machine.Denial{Code: machine.ToolBlocked}}},
		}}})
	}
	for range maxLines {
		log.enqueue(func(context.Context) {})
	}
	refuse()
	if lines := logLines(log, &out); len(lines) != 0 {
		t.Fatalf("%q", lines)
	}
	refuse()
	refuse()
	if lines := logLines(log, &out); len(lines) != 1 {
		t.Fatalf("%q", lines)
	}
}

// logLines are the lines that the log has once it is idle.
func logLines(log *RunLog, out *bytes.Buffer) []string {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for len(log.lines) > 0 {
		log.Run(ctx)
	}
	return strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' })
}

// TestMissedThresholdsLeaveRoom: the results of one record take one place in the queue, so the end of the run is still logged.
func TestMissedThresholdsLeaveRoom(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := NewRunLog(slog.New(slog.NewTextHandler(&out, nil)))
	results := make([]machine.EvalResult, maxLines+1)
	for i := range results {
		results[i] = machine.EvalResult{ID: "e", Threshold: "gte 1"}
	}
	log.OnCommit(&runtime.Commit{Batch: &machine.Batch{
		State:   &machine.State{RunID: "run", Status: machine.Escalated},
		Records: []machine.Record{{Body: &machine.Evaluated{Results: results}}, {Body: &machine.Ended{}}},
	}})
	if lines := logLines(log, &out); len(lines) != len(results)+1 || !strings.Contains(lines[len(lines)-1], "run ended") {
		t.Errorf("%d lines", len(lines))
	}
}
