package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// crash is the report about the simulated power cut.
type crash struct {
	// PID is the process that was killed. NewPID is the process that serves since then. It was ready after RestartMS milliseconds.
	PID       int   `json:"pid"`
	NewPID    int   `json:"new_pid"`
	RestartMS int64 `json:"restart_ms"`
	// Seq is the number of the run's newest record, and ToolCalls is the number of the run's tool calls. Both are the
	// same before and after the crash.
	Seq       uint64 `json:"seq"`
	ToolCalls int32  `json:"tool_calls"`
	// Records is the number of records before the crash. After the crash they are byte for byte the same.
	Records int `json:"records"`
}

// snapshot is the state of the run that a crash must not change.
type snapshot struct {
	run     *pawlv1.Run
	content []byte
	records int
}

// crashAndRestart kills the sidecar between the answer of a step and the event of the turn, and starts it again. It returns an error if
// the run has changed.
func (d *demo) crashAndRestart(ctx context.Context) error {
	before, err := d.snapshot(ctx)
	if err != nil {
		return err
	}
	pid := d.process.cmd.Process.Pid
	d.printLine("SIGKILL", "to process %d, after write_file was answered and before CodeReady", pid)
	if err := d.process.kill(); err != nil {
		return err
	}
	d.process = nil
	if err := d.start(); err != nil {
		return err
	}
	after, err := d.snapshot(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(before.content, after.content) {
		return fmt.Errorf("the crash changed the run:\nbefore %s\nafter  %s", before.content, after.content)
	}
	d.crash = crash{
		PID: pid, NewPID: d.process.cmd.Process.Pid, RestartMS: d.process.ready.Milliseconds(),
		Seq: after.run.GetSeq(), ToolCalls: after.run.GetToolCalls(), Records: after.records,
	}
	d.printLine("unchanged", "seq %d, visits %d, tool calls %d, deadline, artifacts and all %d records with their hashes",
		after.run.GetSeq(), after.run.GetTotalVisits(), after.run.GetToolCalls(), after.records)
	return nil
}

// snapshot reads the run, its artifacts and all its records.
func (d *demo) snapshot(ctx context.Context) (snapshot, error) {
	got, err := d.runs().GetRun(ctx, &pawlv1.GetRunRequest{RunId: d.runID, IncludeArtifacts: true})
	if err != nil {
		return snapshot{}, err
	}
	records, err := d.records(ctx)
	if err != nil {
		return snapshot{}, err
	}
	content, err := json.Marshal([]any{output.RunWith(got.GetRun(), got.GetArtifacts()), output.Messages(records)})
	return snapshot{run: got.GetRun(), content: content, records: len(records)}, err
}

// records lists all records of the run and checks that none is missing.
func (d *demo) records(ctx context.Context) ([]*pawlv1.Record, error) {
	var kinds []pawlv1.RecordKind
	for n := range pawlv1.RecordKind_name {
		if n != 0 {
			kinds = append(kinds, pawlv1.RecordKind(n))
		}
	}
	got, err := d.runs().ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: d.runID, Kinds: kinds, PageSize: 1000})
	if err != nil {
		return nil, err
	}
	for i, r := range got.GetRecords() {
		if r.GetSeq() != uint64(i+1) {
			return nil, fmt.Errorf("record %d has seq %d", i+1, r.GetSeq())
		}
	}
	if got.GetNextPageToken() != "" {
		return nil, errors.New("the run has more than 1000 records")
	}
	return got.GetRecords(), nil
}
