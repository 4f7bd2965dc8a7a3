package runtime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// MaxIDBytes bounds an idempotency id.
const MaxIDBytes = 256

// checkRequest is check (1) of section 4: what can be said of a request without
// its run. JSON inside commands is brought into its compact form; the caller's
// own slices are not changed.
func checkRequest(req *Request) error {
	if err := checkID(idField(machine.KindOf(req.Command)), req.ID); err != nil {
		return err
	}
	switch cmd := req.Command.(type) {
	case machine.EmitEvent:
		if cmd.Event == "" {
			return malformed("EVENT_REQUIRED", "event", "must not be empty")
		}
	case machine.SendInput:
		return checkParts("parts", cmd.Parts)
	case machine.CompleteTurn:
		return checkCompletion(&cmd)
	case machine.WriteOutput:
		return checkParts("piece.parts", cmd.Piece.Parts)
	case machine.RequestSteps:
		return checkSteps(req, cmd)
	case machine.ResolveStep:
		return checkAnswer(req, cmd)
	case machine.SetArtifacts, machine.FailTurn, machine.SuspendTurn, machine.Pause, machine.Resume, machine.Cancel:
	default:
		return malformed("UNKNOWN_COMMAND", "command", fmt.Sprintf("%T is not for callers", req.Command))
	}
	return nil
}

func checkID(field, id string) error {
	switch {
	case len(id) > MaxIDBytes:
		return &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "ID_TOO_LONG", Field: field,
			Message: "an idempotency id is too long", Limit: MaxIDBytes, Got: int64(len(id)),
		}
	case strings.HasPrefix(id, ReservedPrefix):
		return malformed("ID_RESERVED", field, fmt.Sprintf("ids that begin with %q are the engine's own", ReservedPrefix))
	}
	return nil
}

func checkCompletion(cmd *machine.CompleteTurn) error {
	if err := checkParts("output", cmd.Output); err != nil {
		return err
	}
	for i := range cmd.Messages {
		m := &cmd.Messages[i]
		field := fmt.Sprintf("messages[%d]", i)
		if !slices.Contains(roles, m.Role) {
			return &machine.Refusal{
				Code: machine.CodeInvalidArgument, Reason: "UNKNOWN_ROLE", Field: field + ".role",
				Message: fmt.Sprintf("role %q", m.Role), Allowed: roles,
			}
		}
		if err := checkParts(field+".parts", m.Parts); err != nil {
			return err
		}
		if len(m.ToolCalls) > 0 && !json.Valid(m.ToolCalls) {
			return malformed("INVALID_JSON", field+".tool_calls", "is not JSON")
		}
	}
	return nil
}

var roles = []string{"user", "assistant", "tool", "system"}

func checkParts(field string, parts []machine.Part) error {
	for i := range parts {
		p := &parts[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case p.Kind < machine.PartText || p.Kind > machine.PartURI:
			return malformed("UNKNOWN_PART", at, "is neither text, JSON, data nor a URI")
		case p.Kind == machine.PartJSON && !json.Valid(p.Data):
			return malformed("INVALID_JSON", at+".data", "is not JSON")
		case len(p.Metadata) > 0 && !isObject(p.Metadata):
			return malformed("INVALID_JSON", at+".metadata", "is not a JSON object")
		}
	}
	return nil
}

func checkSteps(req *Request, cmd machine.RequestSteps) error {
	requests := slices.Clone(cmd.Requests)
	for i := range requests {
		r := &requests[i]
		at := fmt.Sprintf("requests[%d]", i)
		if r.Tool == "" {
			return malformed("TOOL_REQUIRED", at+".tool", "must not be empty")
		}
		if len(r.Payload) == 0 {
			r.Payload = []byte("{}")
		}
		if !json.Valid(r.Payload) {
			return malformed("INVALID_JSON", at+".payload", "is not JSON")
		}
		r.Payload, _ = compact(r.Payload)
	}
	cmd.Requests = requests
	req.Command = cmd
	return nil
}

func checkAnswer(req *Request, cmd machine.ResolveStep) error {
	switch {
	case cmd.Step == 0:
		return malformed("STEP_REQUIRED", "step", "steps are numbered from 1")
	case cmd.Attempt < 0:
		return malformed("BAD_ATTEMPT", "attempt", "must be 0 (the current one) or more")
	case cmd.OK && len(cmd.Result) == 0:
		cmd.Result = []byte("null")
	case cmd.OK && !json.Valid(cmd.Result):
		return malformed("INVALID_JSON", "result", "is not JSON")
	case !cmd.OK && len(cmd.Result) > 0:
		return malformed("RESULT_OF_ERROR", "result", "an error has no result")
	}
	cmd.Result, _ = compact(cmd.Result)
	req.Command = cmd
	return nil
}

func isObject(v []byte) bool {
	v = []byte(strings.TrimSpace(string(v)))
	return len(v) > 0 && v[0] == '{' && json.Valid(v)
}

func malformed(reason, field, message string) error {
	return &machine.Refusal{Code: machine.CodeInvalidArgument, Reason: reason, Field: field, Message: message}
}
