package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// MaxIDBytes bounds an idempotency id, in bytes. A caller may use 128 bytes. The rest is for the text
// that the sidecar adds to the ids of its own requests.
const MaxIDBytes = 256

// Check makes check (1) of docs/reference/semantics.md §4, that is, the checks of a request that do not
// need the run. It returns the command with JSON in compact form, ready to be stamped. The caller's
// slices are not changed.
func Check(id string, command machine.Command) (machine.Command, error) {
	if err := CheckID(IDField(machine.KindOf(command)), id); err != nil {
		return nil, err
	}
	switch cmd := command.(type) {
	case machine.EmitEvent:
		if cmd.Event == "" {
			return nil, Malformed("EVENT_REQUIRED", "event", "must not be empty")
		}
	case machine.SendInput:
		return cmd, CheckParts("parts", cmd.Parts)
	case machine.CompleteTurn:
		return cmd, checkCompletion(&cmd)
	case machine.WriteOutput:
		return cmd, CheckParts("piece.parts", cmd.Piece.Parts)
	case machine.RequestSteps:
		return checkSteps(cmd)
	case machine.ResolveStep:
		return checkAnswer(cmd)
	case machine.DecideStep:
		return checkDecision(cmd)
	case machine.RequestModel:
		return checkModel(cmd)
	case machine.AnswerModel:
		return checkModelAnswer(cmd)
	case machine.SetArtifacts, machine.FailTurn, machine.SuspendTurn, machine.UpdateModelCall, machine.RaiseBudget, machine.Pause, machine.Resume, machine.Cancel,
		machine.Steer, machine.Stop:
	default:
		return nil, Malformed("UNKNOWN_COMMAND", "command", fmt.Sprintf("%T is not for callers", command))
	}
	return command, nil
}

// ReservedPrefix is the prefix of ids that the engine creates. Callers must not use it.
const ReservedPrefix = "pawl:"

// CheckID checks an idempotency id. field is the name of the id in the request.
func CheckID(field, id string) error {
	switch {
	case len(id) > MaxIDBytes:
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "ID_TOO_LONG", Field: field,
			Message: "an idempotency id is too long", Limit: MaxIDBytes, Got: int64(len(id)),
		}
	case strings.HasPrefix(id, ReservedPrefix):
		return Malformed("ID_RESERVED", field, fmt.Sprintf("ids that begin with %q are the engine's own", ReservedPrefix))
	}
	return nil
}

func checkCompletion(cmd *machine.CompleteTurn) error {
	if err := CheckParts("output", cmd.Output); err != nil {
		return err
	}
	for i := range cmd.Messages {
		if err := CheckMessage(fmt.Sprintf("messages[%d]", i), &cmd.Messages[i]); err != nil {
			return err
		}
	}
	return nil
}

var roles = []string{"user", "assistant", "tool", "system"}

// CheckParts returns an error for a part without content, with two contents, or with metadata that is
// not an object. field is the name of the list in the request.
func CheckParts(field string, parts []machine.Part) error {
	for i := range parts {
		p := &parts[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		if p.Kind < machine.PartText || p.Kind > machine.PartURI {
			return Malformed("UNKNOWN_PART", at, "is neither text, JSON, data nor a URI")
		}
		if p.Kind == machine.PartJSON {
			if err := CheckJSON(at+".data", p.Data); err != nil {
				return err
			}
		}
		if len(p.Metadata) > 0 {
			if err := CheckObject(at+".metadata", p.Metadata); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkSteps(cmd machine.RequestSteps) (machine.Command, error) {
	requests := slices.Clone(cmd.Requests)
	for i := range requests {
		r := &requests[i]
		at := fmt.Sprintf("requests[%d]", i)
		if r.Tool == "" {
			return nil, Malformed("TOOL_REQUIRED", at+".tool", "must not be empty")
		}
		if len(r.Payload) == 0 {
			r.Payload = []byte("{}")
		}
		if err := CheckJSON(at+".payload", r.Payload); err != nil {
			return nil, err
		}
		r.Payload, _ = Compact(r.Payload)
	}
	cmd.Requests = requests
	return cmd, nil
}

// Denial returns the refusal of a step whose payload does not match the JSON Schema of the tool's
// parameters. It returns nil if the payload matches.
func Denial(prog *packcache.Program, r *machine.StepRequest) *machine.Denial {
	declared := prog.Pack.Doc.Tools[r.Tool] != nil
	if prog.Graph.Tools[r.Tool].Agent {
		if fault := packcache.CheckAgentPayload(r.Payload, declared); fault != "" {
			return &machine.Denial{Code: "PAYLOAD_INVALID", Message: fault}
		}
	}
	if faults := prog.Pack.CheckPayload(r.Tool, r.Payload); len(faults) > 0 {
		return &machine.Denial{Code: "PAYLOAD_INVALID", Message: JoinFaults(faults)}
	}
	return nil
}

// maxReason bounds the reason of a decision, in bytes.
const maxReason = 4096

func checkDecision(cmd machine.DecideStep) (machine.Command, error) {
	switch {
	case cmd.Step == 0:
		return nil, Malformed("STEP_REQUIRED", "step", "steps are numbered from 1")
	case cmd.Verdict < machine.Approved || cmd.Verdict > machine.Edited:
		return nil, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "DECISION_REQUIRED", Field: "decision",
			Message: "say what becomes of the call", Allowed: []string{"approve", "deny", "edit"},
		}
	}
	if len(cmd.Payload) > 0 {
		if err := CheckJSON("payload_json", cmd.Payload); err != nil {
			return nil, err
		}
	}
	cmd.Payload, _ = Compact(cmd.Payload)
	cmd.PayloadHash, cmd.Starters = [32]byte{}, nil
	return cmd, TooLarge("reason", "REASON_TOO_LONG", len(cmd.Reason), maxReason)
}

func checkAnswer(cmd machine.ResolveStep) (machine.Command, error) {
	switch {
	case cmd.Step == 0:
		return nil, Malformed("STEP_REQUIRED", "step", "steps are numbered from 1")
	case cmd.Attempt < 1:
		return nil, Malformed("ATTEMPT_REQUIRED", "attempt", "attempts are numbered from 1: answer the attempt that the step or its lease names")
	case cmd.OK && len(cmd.Result) == 0:
		cmd.Result = []byte("null")
	case !cmd.OK && len(cmd.Result) > 0:
		return nil, Malformed("RESULT_OF_ERROR", "result", "an error has no result")
	case cmd.Final && cmd.OK:
		return nil, Malformed("RETRY_CONTRADICTION", "non_retryable", "a result is no failure: only an error is non_retryable")
	case cmd.Unknown && (cmd.OK || cmd.Final):
		return nil, Malformed("RETRY_CONTRADICTION", "unknown", "a result is known, and what follows an unknown error is the pack's word (on_unknown)")
	case cmd.RetryAfter != 0 && (cmd.OK || cmd.Final):
		return nil, Malformed("RETRY_CONTRADICTION", "retry_after", "no attempt follows a result, or an error that is non_retryable")
	case cmd.RetryAfter < 0:
		return nil, Malformed("RETRY_CONTRADICTION", "retry_after", "must be 0 or more")
	}
	if cmd.OK {
		if err := CheckJSON("result", cmd.Result); err != nil {
			return nil, err
		}
	}
	cmd.Result, _ = Compact(cmd.Result)
	return cmd, nil
}

// CheckVerdict checks the answer of a reconcile tool about the outcome of another call. It returns an
// error if a member name could be read as "happened" or "result" by some parsers but not by others.
func CheckVerdict(s *machine.State, c machine.Command) error {
	cmd, ok := c.(machine.ResolveStep)
	if !ok || !cmd.OK || s == nil || len(cmd.Result) == 0 || cmd.Result[0] != '{' {
		return nil
	}
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Step != cmd.Step || p.About == nil || p.About.Role != machine.RoleReconcile {
			continue
		}
		var told struct {
			Happened json.RawMessage `json:"happened"`
			Result   json.RawMessage `json:"result"`
		}
		if err := strictjson.Decode(cmd.Result, &told, strictjson.Open); err != nil {
			return Malformed("INVALID_JSON", "result", err.Error())
		}
	}
	return nil
}

// CheckJSON returns an error if a value is not JSON, or if parsers could read it differently. field is
// the name of the value in the request.
func CheckJSON(field string, v []byte) error {
	if err := strictjson.Check(v); err != nil {
		return Malformed("INVALID_JSON", field, "is not JSON that every reader sees alike: "+err.Error())
	}
	return nil
}

// CheckObject does the same as [CheckJSON], and also requires that the value is an object.
func CheckObject(field string, v []byte) error {
	if err := CheckJSON(field, v); err != nil {
		return err
	}
	if bytes.TrimLeft(v, " \t\r\n")[0] != '{' {
		return Malformed("INVALID_JSON", field, "is not a JSON object")
	}
	return nil
}

// Malformed returns the error for a field with a wrong form.
func Malformed(reason, field, message string) error {
	return &machine.Error{Code: machine.CodeInvalidArgument, Reason: reason, Field: field, Message: message}
}

// IDField returns the name of the idempotency id in the request of a command.
func IDField(kind machine.CommandKind) string {
	switch kind {
	case machine.CmdEmitEvent:
		return "event_id"
	case machine.CmdSendInput:
		return "message_id"
	case machine.CmdSetArtifacts:
		return "write_id"
	}
	return "request_id"
}

// TooLarge returns the error for a field that exceeds its limit. It returns nil if the field is within
// the limit.
func TooLarge(field, reason string, got, limit int) error {
	if got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: reason, Field: field,
		Message: fmt.Sprintf("%d given, at most %d are taken", got, limit), Limit: int64(limit), Got: int64(got),
	}
}
