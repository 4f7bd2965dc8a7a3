package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/conformance/endpoint"
)

// caseOutcome is what came of a case: what the record has, what the tools wrote down, what the endpoint
// was asked.
type caseOutcome struct {
	run      *pawlv1.Run
	bill     string
	output   string
	records  []*pawlv1.Record
	models   []*pawlv1.GetModelStepResponse
	ledger   []entry
	requests []endpoint.Request
}

// entry is one call that reached a tool.
type entry struct {
	Run     string `json:"run"`
	Tool    string `json:"tool"`
	Step    uint32 `json:"step"`
	Attempt int32  `json:"attempt"`
	Payload any    `json:"payload"`
}

// readRun reads all of it.
func (a *answers) readRun(ctx context.Context, c *endpoint.Case, run *pawl.Run) (*caseOutcome, error) {
	runs := pawlv1.NewRunServiceClient(a.client.Conn())
	got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run.ID(), IncludeArtifacts: true})
	if err != nil {
		return nil, err
	}
	seen := &caseOutcome{run: got.GetRun(), requests: a.endpoint.Requests(c.Name, a.lang)}
	for _, artifact := range got.GetArtifacts() {
		if artifact.GetHead().GetName() == "bill" {
			seen.bill = artifact.GetValue().GetText()
		}
	}
	if seen.records, err = recordsOf(ctx, runs, run.ID()); err != nil {
		return nil, err
	}
	for _, record := range seen.records {
		if done := record.GetTurnCompleted(); done != nil {
			seen.output = textOf(done.GetOutput())
		}
		if requested := record.GetStepRequested(); requested.GetKind() == pawlv1.StepKind_STEP_KIND_MODEL && requested.GetAttempt() <= 1 {
			step, err := runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{RunId: run.ID(), Step: requested.GetStep()})
			if err != nil {
				return nil, err
			}
			seen.models = append(seen.models, step)
		}
	}
	seen.ledger, err = a.entries(run.ID())
	return seen, err
}

// recordsOf are all records of a run.
func recordsOf(ctx context.Context, runs pawlv1.RunServiceClient, run string) ([]*pawlv1.Record, error) {
	var all []*pawlv1.Record
	for token := ""; ; {
		page, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: run, PageSize: 100, PageToken: token, Kinds: comparedKinds})
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetRecords()...)
		if token = page.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// comparedKinds are the kinds of records that are judged.
var comparedKinds = []pawlv1.RecordKind{
	pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_MODEL_UPDATED,
	pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED, pawlv1.RecordKind_RECORD_KIND_TURN_FAILED, pawlv1.RecordKind_RECORD_KIND_ENDED,
}

func textOf(parts []*pawlv1.Part) string {
	var out strings.Builder
	for _, part := range parts {
		out.WriteString(part.GetText())
	}
	return out.String()
}

// entries are the ledger's of a run.
func (a *answers) entries(run string) ([]entry, error) {
	content, err := os.ReadFile(a.ledger)
	if err != nil {
		return nil, err
	}
	var all []entry
	for line := range bytes.Lines(content) {
		var one entry
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("the ledger: %w", err)
		}
		if one.Run == run {
			all = append(all, one)
		}
	}
	return all, nil
}

// faults are what the records say of what went wrong.
func (s *caseOutcome) faults() string {
	var out strings.Builder
	for _, record := range s.records {
		fault := record.GetTurnFailed().GetError()
		if fault == nil {
			fault = record.GetStepResolved().GetError()
		}
		if fault != nil {
			fmt.Fprintf(&out, "%s: %s\n", fault.GetCode(), fault.GetMessage())
		}
	}
	return out.String()
}
