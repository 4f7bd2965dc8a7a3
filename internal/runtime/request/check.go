package request

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/program"
)

// MaxIDBytes bounds an idempotency id.
const MaxIDBytes = 256

// checkRequest is check (1) of section 4: what can be said of a request without
// its run. JSON inside commands is brought into its compact form; the caller's
// own slices are not changed.
//
// It returns the command as it is to be stamped.
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
	case machine.SetArtifacts, machine.FailTurn, machine.SuspendTurn, machine.NoteModel, machine.RaiseBudget, machine.Pause, machine.Resume, machine.Cancel,
		machine.Steer, machine.Stop:
	default:
		return nil, Malformed("UNKNOWN_COMMAND", "command", fmt.Sprintf("%T is not for callers", command))
	}
	return command, nil
}

// reservedPrefix begins the ids that the engine makes; callers' must not.
const ReservedPrefix = "pawl:"

// CheckID is what can be said of an idempotency id; field is how its request calls it.
func CheckID(field, id string) error {
	switch {
	case len(id) > MaxIDBytes:
		return &machine.Refusal{
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

// CheckParts refuses parts without content, with two, or with metadata that is no object; field
// is how the request calls the list.
func CheckParts(field string, parts []machine.Part) error {
	for i := range parts {
		p := &parts[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case p.Kind < machine.PartText || p.Kind > machine.PartURI:
			return Malformed("UNKNOWN_PART", at, "is neither text, JSON, data nor a URI")
		case p.Kind == machine.PartJSON && !json.Valid(p.Data):
			return Malformed("INVALID_JSON", at+".data", "is not JSON")
		case len(p.Metadata) > 0 && !IsObject(p.Metadata):
			return Malformed("INVALID_JSON", at+".metadata", "is not a JSON object")
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
		if !json.Valid(r.Payload) {
			return nil, Malformed("INVALID_JSON", at+".payload", "is not JSON")
		}
		r.Payload, _ = Compact(r.Payload)
	}
	cmd.Requests = requests
	return cmd, nil
}

// Denial is the refusal of a step whose payload does not keep to the JSON Schema of the
// tool's parameters; nil: it does.
func Denial(prog *program.Program, r *machine.StepRequest) *machine.Denial {
	declared := prog.Pack.Doc.Tools[r.Tool] != nil
	if prog.Graph.Tools[r.Tool].Agent && !declared {
		if fault := program.CheckAgentPayload(r.Payload); fault != "" {
			return &machine.Denial{Code: "PAYLOAD_INVALID", Message: fault}
		}
	}
	if faults := prog.Pack.CheckPayload(r.Tool, r.Payload); len(faults) > 0 {
		return &machine.Denial{Code: "PAYLOAD_INVALID", Message: JoinFaults(faults)}
	}
	return nil
}

// maxReason bounds the words of a decision, in bytes.
const maxReason = 4096

func checkDecision(cmd machine.DecideStep) (machine.Command, error) {
	switch {
	case cmd.Step == 0:
		return nil, Malformed("STEP_REQUIRED", "step", "steps are numbered from 1")
	case cmd.Verdict < machine.Approved || cmd.Verdict > machine.Edited:
		return nil, &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "DECISION_REQUIRED", Field: "decision",
			Message: "say what becomes of the call", Allowed: []string{"approve", "deny", "edit"},
		}
	case len(cmd.Payload) > 0 && !json.Valid(cmd.Payload):
		return nil, Malformed("INVALID_JSON", "payload_json", "is not JSON")
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
	case cmd.OK && !json.Valid(cmd.Result):
		return nil, Malformed("INVALID_JSON", "result", "is not JSON")
	case !cmd.OK && len(cmd.Result) > 0:
		return nil, Malformed("RESULT_OF_ERROR", "result", "an error has no result")
	case cmd.Final && cmd.OK:
		return nil, Malformed("RETRY_CONTRADICTION", "final", "a result is no failure: only an error is final")
	case cmd.Unknown && (cmd.OK || cmd.Final):
		return nil, Malformed("RETRY_CONTRADICTION", "unknown", "a result is known, and what follows an unknown error is the pack's word (on_unknown)")
	case cmd.RetryAfter != 0 && (cmd.OK || cmd.Final):
		return nil, Malformed("RETRY_CONTRADICTION", "retry_after", "no attempt follows a result, or an error that is final")
	case cmd.RetryAfter < 0:
		return nil, Malformed("RETRY_CONTRADICTION", "retry_after", "must be 0 or more")
	}
	cmd.Result, _ = Compact(cmd.Result)
	return cmd, nil
}

// IsObject reports whether the bytes are one JSON object.
func IsObject(v []byte) bool {
	v = []byte(strings.TrimSpace(string(v)))
	return len(v) > 0 && v[0] == '{' && json.Valid(v)
}

// Malformed is the refusal of a field that has not the form that it must have.
func Malformed(reason, field, message string) error {
	return &machine.Refusal{Code: machine.CodeInvalidArgument, Reason: reason, Field: field, Message: message}
}

// IDField is how the request of a command calls its idempotency id.
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

// TooLarge is the refusal of a field that passes its limit; nil if it does not.
func TooLarge(field, reason string, got, limit int) error {
	if got <= limit {
		return nil
	}
	return &machine.Refusal{
		Code: machine.CodeResourceExhausted, Reason: reason, Field: field,
		Message: fmt.Sprintf("%d given, at most %d are taken", got, limit), Limit: int64(limit), Got: int64(got),
	}
}
