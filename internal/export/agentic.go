package export

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// These are the types of the events that RFC-103 defines for agent loops. TypeToolRequest is followed by a dot and
// the name of the tool.
const (
	TypeStart       = "agentic.start"
	TypeToolRequest = "agentic.tool_request"
	TypeToolResult  = "agentic.tool_result"
	TypeCompleted   = "agent.completed"
	TypeEscalated   = "agent.escalated"
)

// Types are the names that a filter accepts. TypeToolRequest is also accepted with ".<tool>" at its end.
var Types = []string{TypeStart, TypeToolRequest, TypeToolResult, TypeCompleted, TypeEscalated}

// AgenticKinds are the kinds of a run's records from which RFC-103 events are made.
var AgenticKinds = []pawlv1.RecordKind{
	pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED,
	pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_ENDED,
	pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED,
}

// Event is one of RFC-103's events.
type Event struct {
	// Type is one of the types above.
	Type    string
	Payload output.Object
	// DedupeKey identifies the event. It is the same each time the event is sent.
	DedupeKey string
}

// Object returns the event's JSON form.
func (e *Event) Object() output.Object {
	return output.Object{{Key: "type", Value: e.Type}, {Key: "payload", Value: e.Payload}, {Key: "dedupe_key", Value: e.DedupeKey}}
}

// CheckTypes returns an error for unknown names of events.
func CheckTypes(names []string) error {
	for _, name := range names {
		tool, request := strings.CutPrefix(name, TypeToolRequest+".")
		if !slices.Contains(Types, name) && (!request || tool == "") {
			return fmt.Errorf("event %q is none of %s, nor %s.TOOL", name, strings.Join(Types, ", "), TypeToolRequest)
		}
	}
	return nil
}

// Agentic turns the records of runs, in order, into RFC-103's events. Not safe for concurrent use.
type Agentic struct {
	Runs      pawlv1.RunServiceClient
	Namespace string
	// Types are the types to return; empty = all.
	Types []string
}

// Event returns the event for a record. It returns nil if the record has no event, or if the type of the event is not selected.
func (a *Agentic) Event(ctx context.Context, r *pawlv1.Record) (*Event, error) {
	event, err := a.event(ctx, r)
	if err != nil || event == nil || !a.accepts(event.Type) {
		return nil, err
	}
	return event, nil
}

func (a *Agentic) accepts(name string) bool {
	return len(a.Types) == 0 || slices.Contains(a.Types, name) ||
		strings.HasPrefix(name, TypeToolRequest+".") && slices.Contains(a.Types, TypeToolRequest)
}

// event returns the RFC-103 event of a record, or nil if the record has none.
func (a *Agentic) event(ctx context.Context, r *pawlv1.Record) (*Event, error) {
	switch body := r.GetBody().(type) {
	case *pawlv1.Record_Transition:
		if r.GetCause() != pawlv1.Cause_CAUSE_ENTRY {
			return nil, nil
		}
		return a.start(ctx, r)
	case *pawlv1.Record_StepRequested:
		s := body.StepRequested
		// A tool call that waits for approval has no event yet, because a receiver of a request event may execute the
		// call. Its event is sent after the approval.
		if s.GetKind() == pawlv1.StepKind_STEP_KIND_MODEL || s.GetHold() != nil {
			return nil, nil
		}
		return request(r, s.GetStep(), s.GetTool(), s.GetAttempt(), s.GetPayloadJson()), nil
	case *pawlv1.Record_StepDecided:
		return a.approved(ctx, r, body.StepDecided)
	case *pawlv1.Record_StepResolved:
		if body.StepResolved.GetKind() == pawlv1.StepKind_STEP_KIND_MODEL {
			return nil, nil
		}
		if body.StepResolved.GetNext() > 0 {
			return a.retryRequest(ctx, r, body.StepResolved)
		}
		return result(r, body.StepResolved), nil
	case *pawlv1.Record_Ended:
		return a.end(ctx, r, body.Ended)
	}
	return nil, nil
}

// start returns the event of the run's start. If the caller gave an id to its start request, the event's key is this
// id and so equals the key of the event that the caller sent. Otherwise the key contains the run's id.
func (a *Agentic) start(ctx context.Context, r *pawlv1.Record) (*Event, error) {
	if !a.accepts(TypeStart) {
		return nil, nil
	}
	got, err := a.about(ctx, r.GetRunId())
	if err != nil {
		return nil, err
	}
	external := got.GetRequestId()
	key := external
	if key == "" {
		key = r.GetRunId()
	}
	pack := got.GetRun().GetPack()
	return &Event{
		Type: TypeStart, DedupeKey: "agentic:start:" + key,
		Payload: output.Object{
			{Key: "run_id", Value: r.GetRunId()}, {Key: "external_id", Value: external}, {Key: "goal", Value: got.GetGoal()},
			{Key: "context", Value: contextOf(got)}, {Key: "pack", Value: pack.GetId() + "@" + pack.GetVersion()},
		},
	}, nil
}

// contextOf returns the run's variables. It adds the field max_steps of RFC-103 if the run has this bound and no
// variable with this name.
func contextOf(got *pawlv1.GetRunResponse) any {
	var variables map[string]json.RawMessage
	steps := got.GetBudgets().GetMaxSteps()
	if json.Unmarshal([]byte(got.GetVariablesJson()), &variables) != nil || variables["max_steps"] != nil || steps == 0 {
		return raw(got.GetVariablesJson())
	}
	variables["max_steps"] = json.RawMessage(strconv.Itoa(int(steps)))
	return variables
}

// about returns the data with which a run was started.
func (a *Agentic) about(ctx context.Context, run string) (*pawlv1.GetRunResponse, error) {
	return a.Runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: a.Namespace, RunId: run, IncludeVariables: true})
}

func request(r *pawlv1.Record, step uint32, tool string, attempt int32, payload string) *Event {
	key := fmt.Sprintf("agentic:run:%s:step:%d:request", r.GetRunId(), step)
	if attempt > 1 {
		key += fmt.Sprintf(":attempt:%d", attempt)
	}
	return &Event{
		Type: TypeToolRequest + "." + tool, DedupeKey: key,
		Payload: output.Object{
			{Key: "run_id", Value: r.GetRunId()}, {Key: "step", Value: step}, {Key: "tool", Value: tool},
			{Key: "tool_command", Value: "handle"}, {Key: "tool_payload", Value: raw(payload)},
			{Key: "attempt", Value: attempt}, {Key: "requested_at", Value: formatTime(r.GetAt())},
		},
	}
}

// retryRequest returns the request event of a tool step that failed and is tried once more. It has the same step and
// payload as the first event.
func (a *Agentic) retryRequest(ctx context.Context, r *pawlv1.Record, s *pawlv1.StepResolved) (*Event, error) {
	payload, err := a.payload(ctx, r, s.GetStep())
	if err != nil {
		return nil, err
	}
	return request(r, s.GetStep(), s.GetTool(), s.GetNext(), payload), nil
}

// approved returns the request event of a tool call after its approval. If the call needed a second approval, the key
// is the same as before.
func (a *Agentic) approved(ctx context.Context, r *pawlv1.Record, s *pawlv1.StepDecided) (*Event, error) {
	switch s.GetVerdict() {
	case pawlv1.StepVerdict_STEP_VERDICT_APPROVED, pawlv1.StepVerdict_STEP_VERDICT_EDITED:
	default:
		return nil, nil
	}
	payload, err := a.payload(ctx, r, s.GetStep())
	if err != nil {
		return nil, err
	}
	return request(r, s.GetStep(), s.GetTool(), 1, payload), nil
}

// payload returns the arguments that a step has at a record. They are the arguments of the request, or those that an
// approval put in their place.
func (a *Agentic) payload(ctx context.Context, r *pawlv1.Record, step uint32) (payload string, err error) {
	req := &pawlv1.ListTransitionsRequest{
		Namespace: a.Namespace, RunId: r.GetRunId(), PageSize: 1000,
		Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED, pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED},
	}
	found := false
	for {
		page, err := a.Runs.ListTransitions(ctx, req)
		if err != nil {
			return "", err
		}
		for _, record := range page.GetRecords() {
			if asked := record.GetStepRequested(); asked.GetStep() == step {
				payload, found = asked.GetPayloadJson(), true
			}
			if edit := record.GetStepDecided(); edit.GetStep() == step && edit.GetPayloadJson() != "" && record.GetSeq() <= r.GetSeq() {
				payload = edit.GetPayloadJson()
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if !found {
		return "", fmt.Errorf("run %s has no request of step %d", r.GetRunId(), step)
	}
	return payload, nil
}

func result(r *pawlv1.Record, s *pawlv1.StepResolved) *Event {
	status, fault := "ok", any(nil)
	if !s.GetOk() {
		status, fault = "error", output.Message(s.GetError())
	}
	return &Event{
		Type: TypeToolResult, DedupeKey: fmt.Sprintf("agentic:run:%s:step:%d:result", r.GetRunId(), s.GetStep()),
		Payload: output.Object{
			{Key: "run_id", Value: r.GetRunId()}, {Key: "step", Value: s.GetStep()}, {Key: "tool", Value: s.GetTool()},
			{Key: "attempt", Value: s.GetAttempt()}, {Key: "status", Value: status}, {Key: "result", Value: raw(s.GetResultJson())},
			{Key: "error", Value: fault}, {Key: "completed_at", Value: formatTime(r.GetAt())},
		},
	}
}

// end returns the completion or escalation event of a run. Every status other than COMPLETED is an escalation.
func (a *Agentic) end(ctx context.Context, r *pawlv1.Record, ended *pawlv1.Ended) (*Event, error) {
	event := &Event{Type: TypeCompleted, DedupeKey: "agentic:run:" + r.GetRunId() + ":completed"}
	if ended.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		event.Type, event.DedupeKey = TypeEscalated, "agentic:run:"+r.GetRunId()+":escalated"
	}
	if !a.accepts(event.Type) {
		return nil, nil
	}
	got, err := a.about(ctx, r.GetRunId())
	if err != nil {
		return nil, err
	}
	outcome, steps, err := a.outcome(ctx, r.GetRunId())
	if err != nil {
		return nil, err
	}
	names := []string{}
	files := newFileNames()
	for _, artifact := range ended.GetFinalArtifacts() {
		names = append(names, "artifacts/"+files.fileName(artifact.GetHead().GetName(), artifact.GetHead().GetMediaType()))
	}
	event.Payload = output.Object{
		{Key: "run_id", Value: r.GetRunId()}, {Key: "goal", Value: got.GetGoal()}, {Key: "outcome", Value: outcome},
		{Key: "status", Value: output.Bare("RunStatus", ended.GetStatus().String())}, {Key: "reason", Value: ended.GetReason()},
		{Key: "lost", Value: lostEvent(ended)},
		{Key: "steps_taken", Value: steps}, {Key: "artifacts", Value: names}, {Key: "completed_at", Value: formatTime(r.GetAt())},
	}
	return event, nil
}

// lostEvent returns the event that should have been followed when the run ended, with the state to which it leads and the
// guards (limits) that refused it. It returns nil if there is none.
func lostEvent(ended *pawlv1.Ended) any {
	if ended.GetEvent() == "" && ended.GetIntendedState() == "" {
		return nil
	}
	refused := output.Messages(ended.GetRedirects())
	return output.Object{
		{Key: "event", Value: ended.GetEvent()}, {Key: "intended_state", Value: ended.GetIntendedState()}, {Key: "refused", Value: refused},
	}
}

// outcome returns the text of the run's last output, and the number of its steps of tools and agents, including those
// that were not approved.
func (a *Agentic) outcome(ctx context.Context, run string) (text string, steps int, err error) {
	req := &pawlv1.ListTransitionsRequest{
		Namespace: a.Namespace, RunId: run, PageSize: 1000,
		Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED, pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED},
	}
	for {
		page, err := a.Runs.ListTransitions(ctx, req)
		if err != nil {
			return "", 0, err
		}
		for _, r := range page.GetRecords() {
			if t := Text(r.GetTurnCompleted().GetOutput()); t != "" {
				text = t
			}
			steps += toolSteps(r)
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return text, steps, nil
		}
	}
}

// toolSteps counts the records that request a step of a tool or an agent.
func toolSteps(records ...*pawlv1.Record) (n int) {
	for _, r := range records {
		if asked := r.GetStepRequested(); asked != nil && asked.GetKind() != pawlv1.StepKind_STEP_KIND_MODEL {
			n++
		}
	}
	return n
}

// Text joins the parts of a message with line breaks. For a data part it contains only the size and the media type.
func Text(parts []*pawlv1.Part) string {
	var lines []string
	for _, p := range parts {
		switch content := p.GetContent().(type) {
		case *pawlv1.Part_Text:
			lines = append(lines, content.Text)
		case *pawlv1.Part_Json:
			lines = append(lines, content.Json)
		case *pawlv1.Part_Uri:
			lines = append(lines, content.Uri)
		case *pawlv1.Part_Data:
			lines = append(lines, fmt.Sprintf("(%d bytes of %s)", len(content.Data), p.GetMediaType()))
		}
	}
	return strings.Join(lines, "\n")
}

// raw returns JSON text as a value that is written to JSON unchanged. An empty text, or one that is no JSON, becomes
// null.
func raw(text string) any {
	if text == "" || !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

func formatTime(at *timestamppb.Timestamp) string { return at.AsTime().UTC().Format(time.RFC3339Nano) }
