package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/script"
)

// errPowerCut is the error with which the demo stops its executor in the middle of a turn, before it
// kills the sidecar.
var errPowerCut = errors.New("power cut")

// executor executes one run: it fetches each turn, gets the recorded model's answer, runs the tools of
// that answer and completes the turn. It has no state between turns.
type executor struct {
	runs      pawlv1.RunServiceClient
	model     *model
	tools     *tools
	printLine func(label, format string, args ...any)
	// answered is called after every step that this executor has executed. If it returns an error, the executor stops
	// after this step.
	answered func(*pawlv1.GetTurnResponse) error
	// replayed counts the steps that were not executed again, because their answers were in the journal.
	replayed int
}

// run executes turns until the run has ended.
func (e *executor) run(ctx context.Context, runID string) error {
	for {
		turn, err := e.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: runID})
		if err != nil {
			return fmt.Errorf("get turn: %w", err)
		}
		ended, err := e.turn(ctx, turn)
		if err != nil || ended {
			return err
		}
	}
}

// turn executes one turn and reports whether the run has ended.
func (e *executor) turn(ctx context.Context, turn *pawlv1.GetTurnResponse) (bool, error) {
	ref := turn.GetTurn()
	answer, err := e.model.answer(ref.GetState(), ref.GetVisit())
	if err != nil {
		return false, err
	}
	if err := promptKnows(turn); err != nil {
		return false, err
	}
	results, err := e.steps(ctx, turn, answer)
	if err != nil {
		return false, err
	}
	artifacts, err := produced(answer, results)
	if err != nil {
		return false, err
	}
	output, err := script.Parts(answer.Output)
	if err != nil {
		return false, fmt.Errorf("output of %s: %w", ref.GetState(), err)
	}
	got, err := e.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: ref.GetRunId(), TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(),
		Output: output, Event: answer.Event, Artifacts: artifacts,
	})
	if err != nil {
		return false, fmt.Errorf("complete turn of %s: %w", ref.GetState(), err)
	}
	next := "→ " + got.GetState()
	if got.GetEnded() != nil {
		next = "the run ends"
	}
	e.printLine(place(ref), "%s %s, %s", turn.GetPrompt(), eventText(answer.Event), next)
	return got.GetEnded() != nil, nil
}

func eventText(event string) string {
	if event == "" {
		return "answers"
	}
	return "says " + event
}

// place returns the state of a turn, and the number of the visit of this state, as text.
func place(ref *pawlv1.TurnRef) string { return fmt.Sprintf("%s (%d)", ref.GetState(), ref.GetVisit()) }

// steps runs the tool calls of a turn and returns their results. A call that was
// answered before a crash is not executed again.
func (e *executor) steps(ctx context.Context, turn *pawlv1.GetTurnResponse, answer *script.Answer) ([][]byte, error) {
	var results [][]byte
	for i := range answer.Steps {
		result, err := e.step(ctx, turn, fmt.Sprint(i+1), &answer.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", answer.Steps[i].Tool, place(turn.GetTurn()), err)
		}
		results = append(results, result)
	}
	return results, nil
}

func (e *executor) step(ctx context.Context, turn *pawlv1.GetTurnResponse, key string, s *script.Step) ([]byte, error) {
	payload, err := json.Marshal(s.Payload)
	if err != nil {
		return nil, err
	}
	ref := turn.GetTurn()
	got, err := e.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: ref.GetRunId(), TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(),
		Requests: []*pawlv1.StepRequest{{Key: key, Tool: s.Tool, PayloadJson: string(payload), ByCaller: true}},
	})
	if err != nil {
		return nil, err
	}
	if len(got.GetOutcomes()) != 1 || got.GetOutcomes()[0].GetDenial() != nil {
		return nil, fmt.Errorf("was refused: %v", got)
	}
	step := got.GetOutcomes()[0].GetStep()
	if step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_OK {
		e.replayed++
		e.printLine(place(ref), "%s: step %d was answered before the crash; not executed again", s.Tool, step.GetStep())
		return []byte(step.GetResultJson()), nil
	}
	if !script.MayExecute(step) {
		return nil, fmt.Errorf("may not be made: step %d is %s and is a worker's, or waits for a decision or an inquiry", step.GetStep(), step.GetStatus())
	}
	return e.execute(ctx, turn, step)
}

// execute runs the tool and reports its result.
func (e *executor) execute(ctx context.Context, turn *pawlv1.GetTurnResponse, step *pawlv1.Step) ([]byte, error) {
	result, err := e.tools.call(ctx, step.GetTool(), []byte(step.GetPayloadJson()))
	if err != nil {
		return nil, err
	}
	ref := turn.GetTurn()
	got, err := e.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
		RunId: ref.GetRunId(), Step: step.GetStep(), Tool: step.GetTool(), Attempt: step.GetAttempt(),
		TurnToken: ref.GetToken(), Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: string(result)},
	})
	if err != nil {
		return nil, err
	}
	if got.GetDisposition() != pawlv1.Disposition_DISPOSITION_ACCEPTED {
		return nil, fmt.Errorf("its answer became %s", got.GetDisposition())
	}
	e.printLine(place(ref), "%s → %s", step.GetTool(), summary(step.GetTool(), result))
	if e.answered != nil {
		return result, e.answered(turn)
	}
	return result, nil
}

// summary describes the result of a tool in a few words. For a tool that it does not know, it returns the whole result.
func summary(tool string, result []byte) string {
	var w writeResult
	var r TestReport
	switch {
	case tool == "write_file" && json.Unmarshal(result, &w) == nil:
		return fmt.Sprintf("%s, %d bytes, commit %s", w.Path, w.Bytes, short(w.Commit))
	case tool == "run_tests" && json.Unmarshal(result, &r) == nil:
		return fmt.Sprintf("%d/%d pass", r.Passed, r.Total)
	}
	return string(result)
}

func short(hash string) string { return hash[:min(7, len(hash))] }

// promptKnows returns an error if the prompt of a later visit of the state implement does not contain a test report.
func promptKnows(turn *pawlv1.GetTurnResponse) error {
	ref := turn.GetTurn()
	if ref.GetState() == "implement" && ref.GetVisit() > 1 && !strings.Contains(turn.GetSystemPrompt(), `"passed":`) {
		return fmt.Errorf("the prompt of %s does not hold the test report:\n%s", place(ref), turn.GetSystemPrompt())
	}
	return nil
}

// produced returns the artifacts that a turn writes: those from the model and those from the tools. It returns an
// error if what the model says about the tests does not agree with the result of the tests.
func produced(answer *script.Answer, results [][]byte) ([]*pawlv1.ArtifactWrite, error) {
	var out []*pawlv1.ArtifactWrite
	if text, ok := answer.Artifacts["change_summary"].(string); ok {
		out = append(out, textArtifact("change_summary", text))
	}
	for i, result := range results {
		switch answer.Steps[i].Tool {
		case "write_file":
			var w writeResult
			if err := json.Unmarshal(result, &w); err != nil {
				return nil, err
			}
			out = append(out, textArtifact("commit_sha", w.Commit))
		case "run_tests":
			if err := checkAgreement(answer.Event, result); err != nil {
				return nil, err
			}
			out = append(out, &pawlv1.ArtifactWrite{Name: "test_report", Value: &pawlv1.ArtifactValue{
				Value: &pawlv1.ArtifactValue_Json{Json: string(result)},
			}})
		}
	}
	return out, nil
}

func textArtifact(name, text string) *pawlv1.ArtifactWrite {
	return &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: text}}}
}

// checkAgreement returns an error if the event that the recorded model chose does not agree with the real test result.
func checkAgreement(event string, result []byte) error {
	var r TestReport
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if (event == "TestsPassed") != r.OK() {
		return fmt.Errorf("the recorded model says %s, but %d of %d tests really pass", event, r.Passed, r.Total)
	}
	return nil
}
