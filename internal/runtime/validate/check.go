package validate

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// MaxIDBytes bounds an idempotency id, in bytes. Callers of the API may use 128 bytes. The rest is for
// the text that the sidecar adds to the ids of its own requests.
const MaxIDBytes = 256

// Check makes the checks of a command that need no data of the run (check 1 of
// docs/reference/semantics.md §4). It returns the command with compact JSON. The caller's slices are
// not changed.
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
		// Only the id of these commands is checked here.
	default:
		return nil, Malformed("UNKNOWN_COMMAND", "command", fmt.Sprintf("%T is not for callers", command))
	}
	return command, nil
}

// ReservedPrefix is the prefix of idempotency ids that the engine itself creates. Callers must not use
// it.
const ReservedPrefix = "pawl:"

// CheckID checks the form of an idempotency id. field is the name of the id in the request.
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

// CheckParts returns an error if a part has no content, or metadata that is not an object, or invalid
// JSON. field is the name of the list in the request.
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

// checkSteps checks requests for tool calls, and returns them with compact JSON. An empty payload becomes {}.
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

// Denial returns the refusal of a requested step whose payload does not match the JSON Schema of the
// tool's parameters. It returns nil if the payload matches.
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

// maxReason bounds the reason that a person gives for a decision about a tool call, in bytes.
const maxReason = 4096

// checkDecision checks a decision about a held call, and returns it with compact JSON.
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
	cmd.PayloadHash, cmd.Starters = [32]byte{}, nil // only the engine sets these fields
	return cmd, TooLarge("reason", "REASON_TOO_LONG", len(cmd.Reason), maxReason)
}

// checkAnswer checks the answer of a step, and returns it with compact JSON.
func checkAnswer(cmd machine.ResolveStep) (machine.Command, error) {
	switch {
	case cmd.Step == 0:
		return nil, Malformed("STEP_REQUIRED", "step", "steps are numbered from 1")
	case cmd.Attempt < 1:
		return nil, Malformed("ATTEMPT_REQUIRED", "attempt", "attempts are numbered from 1: answer the attempt that the step or its lease names")
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
	if cmd.OK && len(cmd.Result) == 0 {
		cmd.Result = []byte("null")
	}
	if cmd.OK {
		if err := CheckJSON("result", cmd.Result); err != nil {
			return nil, err
		}
	}
	cmd.Result, _ = Compact(cmd.Result)
	return cmd, nil
}

// CheckVerdict checks the answer of a reconcile tool, which says whether another call happened. It
// returns an error if some parsers, but not others, could read a member name as "happened" or "result".
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

// CheckJSON returns an error if a value is not JSON, or if two parsers could read it differently, for
// example because a key occurs twice. field is the name of the value in the request.
func CheckJSON(field string, v []byte) error {
	if err := strictjson.Check(v); err != nil {
		return Malformed("INVALID_JSON", field, "is not JSON that every reader sees alike: "+err.Error())
	}
	return nil
}

// CheckObject is [CheckJSON] for a value that must be a JSON object.
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

// IDField returns the name of the field that contains the idempotency id of a command, for errors.
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

// TooLarge returns an error if the size `got` of a field exceeds its limit, otherwise nil.
func TooLarge(field, reason string, got, limit int) error {
	if got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: reason, Field: field,
		Message: fmt.Sprintf("%d given, at most %d are taken", got, limit), Limit: int64(limit), Got: int64(got),
	}
}

// Body collects the values that must be equal when a request is repeated with the same id, and hashes
// them. The length of each value is written before the value.
type Body struct{ buf *[]byte }

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxPooledBody bounds the buffers that are kept in the pool. Larger buffers are left to the garbage
// collector.
const maxPooledBody = 64 << 10

// NewBody begins the body of a command of the given kind. The caller must call [Body.Free] once.
func NewBody(kind machine.CommandKind) Body {
	b := Body{buf: bodies.Get().(*[]byte)}
	*b.buf = append((*b.buf)[:0], byte(kind))
	return b
}

// Sum returns the SHA-256 of the collected values, which is the body hash of the request.
func (b Body) Sum() [32]byte { return sha256.Sum256(*b.buf) }

// Free returns the buffer to the pool. The Body must not be used afterwards.
func (b Body) Free() {
	if cap(*b.buf) <= maxPooledBody {
		bodies.Put(b.buf)
	}
}

// Number adds a number to the hashed values, as eight bytes in big-endian order.
func (b Body) Number(n uint64) { *b.buf = binary.BigEndian.AppendUint64(*b.buf, n) }

// Text adds a string after its length.
func (b Body) Text(s string) {
	b.Number(uint64(len(s)))
	*b.buf = append(*b.buf, s...)
}

// Bytes adds bytes after their length.
func (b Body) Bytes(v []byte) {
	b.Number(uint64(len(v)))
	*b.buf = append(*b.buf, v...)
}

// Flag adds a boolean.
func (b Body) Flag(on bool) {
	var n uint64
	if on {
		n = 1
	}
	b.Number(n)
}

// JSON adds a JSON value to the hashed values in canonical form, so that spaces and the order of keys
// do not change the hash.
func (b Body) JSON(v []byte) { b.Bytes(Canonical(v)) }

// Fault adds the code and the message of an error to the hashed values. The stack trace is left out,
// because it may differ in a repeat.
func (b Body) Fault(f machine.Fault) {
	b.Text(f.Code)
	b.Text(f.Message)
}

// Usage adds to the hashed values all figures of a usage that the caller can set.
func (b Body) Usage(u machine.Usage) {
	b.Number(uint64(u.InputTokens))
	b.Number(uint64(u.OutputTokens))
	b.Number(uint64(u.CostMicro))
	b.Number(uint64(u.ToolCalls))
	b.Number(uint64(u.CachedTokens))
	b.Number(uint64(u.ReasoningTokens))
	b.Text(u.Model)
	if u.Estimated {
		b.Text("estimated") // added only if set, so that the hashes of older requests do not change
	}
	if u.CountedBefore {
		b.Text("counted")
	}
}

// Writes adds written artifacts to the hashed values, ordered by name. JSON values are added in
// canonical form.
func (b Body) Writes(g *machine.Graph, writes []machine.ArtifactWrite) {
	b.Number(uint64(len(writes)))
	if len(writes) > 1 {
		writes = slices.Clone(writes)
		slices.SortStableFunc(writes, func(a, c machine.ArtifactWrite) int { return strings.Compare(a.Name, c.Name) })
	}
	for i := range writes {
		b.Text(writes[i].Name)
		if IsJSON(g.Artifacts[writes[i].Name].Type) {
			b.JSON(writes[i].Value)
		} else {
			b.Bytes(writes[i].Value)
		}
	}
}

// Parts adds parts in their order.
func (b Body) Parts(parts []machine.Part) {
	b.Number(uint64(len(parts)))
	for i := range parts {
		p := &parts[i]
		b.Number(uint64(p.Kind))
		b.Text(p.Text)
		if p.Kind == machine.PartJSON {
			b.JSON(p.Data)
		} else {
			b.Bytes(p.Data)
		}
		b.Text(p.MediaType)
		b.Text(p.Filename)
		b.JSON(p.Metadata)
	}
}

// Messages adds messages in their order.
func (b Body) Messages(messages []machine.Message) {
	b.Number(uint64(len(messages)))
	for i := range messages {
		b.Text(messages[i].Role)
		b.Parts(messages[i].Parts)
		b.JSON(messages[i].ToolCalls)
		b.Text(messages[i].ToolCallID)
		if len(messages[i].Provider)+len(messages[i].Refusal) > 0 {
			b.Bytes(messages[i].Provider)
			b.Text(messages[i].Refusal)
		}
	}
}

// Envelope adds the envelope of an A2A message to the hashed values. nil means that there is none.
func (b Body) Envelope(e *machine.Envelope) {
	if e == nil {
		b.Number(0)
		return
	}
	b.Number(1)
	b.Text(e.MessageID)
	b.Text(e.ContextID)
	b.texts(e.References)
	b.texts(e.Extensions)
	b.JSON(e.Metadata)
}

func (b Body) texts(list []string) {
	b.Number(uint64(len(list)))
	for _, s := range list {
		b.Text(s)
	}
}

// Piece adds a piece of turn output.
func (b Body) Piece(p *machine.OutputPiece) {
	b.Text(p.ID)
	b.Text(p.Name)
	b.Text(p.Description)
	b.Parts(p.Parts)
	b.Flag(p.Append)
	b.Flag(p.Last)
	b.JSON(p.Metadata)
}

// Plain adds to the hashed values the fields of a command that has only few of them.
func (b Body) Plain(c machine.Command) {
	switch c := c.(type) {
	case machine.SendInput:
		b.Parts(c.Parts)
		b.Number(uint64(c.Step))
		b.Envelope(c.Envelope)
	case machine.RaiseBudget:
		b.Number(uint64(c.To.Tokens))
		b.Number(uint64(c.To.CostMicro))
		b.Text(c.Reason)
	case machine.DecideStep:
		b.decision(&c)
	case machine.Pause:
		b.Text(c.Note)
	case machine.Resume:
		b.Text(c.Note)
	case machine.Cancel:
		b.Text(c.Note)
	case machine.Steer:
		b.Text(c.Text)
		b.Number(uint64(c.When))
	case machine.Stop:
		b.Text(c.Note)
	}
}

// decision adds to the hashed values the fields of a decision that the caller sets. The fields that the
// engine sets are left out.
func (b Body) decision(c *machine.DecideStep) {
	b.Number(uint64(c.Step))
	b.Bytes(c.Digest[:])
	b.Number(uint64(c.Verdict))
	b.JSON(c.Payload)
	b.Text(c.Reason)
	b.Number(uint64(c.Expires))
}

// Canonical returns the same bytes for JSON objects and arrays that differ only in spaces or in the order
// of keys. The value must not begin with a space. Any other value is returned unchanged.
// Numbers are kept as written, because different large integers would become equal if they were rounded
// as in RFC 8785. A value that the strict parser refuses is returned unchanged.
func Canonical(v []byte) []byte {
	if len(v) == 0 || v[0] != '{' && v[0] != '[' {
		return v
	}
	value, err := strictjson.Value(v)
	if err != nil {
		return v
	}
	out, err := json.Marshal(value)
	if err != nil {
		return v
	}
	return out
}

// PayloadHash returns the SHA-256 of the canonical payload of a tool call.
func PayloadHash(payload []byte) [32]byte { return sha256.Sum256(Canonical(payload)) }

// CompactWrites removes spaces from written JSON values. Values that do not parse are kept, because the
// machine refuses them later. The caller's slice is not changed.
func CompactWrites(g *machine.Graph, writes []machine.ArtifactWrite) []machine.ArtifactWrite {
	owned := false
	for i := range writes {
		if !IsJSON(g.Artifacts[writes[i].Name].Type) {
			continue
		}
		short, changed := Compact(writes[i].Value)
		if !changed {
			continue
		}
		if !owned {
			writes, owned = slices.Clone(writes), true
		}
		writes[i].Value = short
	}
	return writes
}

// CheckWrites returns an error if a command writes JSON that two parsers could read differently. It
// does not check whether a value of a JSON artifact is JSON at all, because the machine does that.
func CheckWrites(g *machine.Graph, c machine.Command) error {
	var writes []machine.ArtifactWrite
	switch cmd := c.(type) {
	case machine.EmitEvent:
		writes = cmd.Artifacts
	case machine.SetArtifacts:
		writes = cmd.Artifacts
	case machine.CompleteTurn:
		writes = cmd.Artifacts
	}
	return CheckValues(g, writes)
}

// CheckValues is [CheckWrites] for a list of writes.
func CheckValues(g *machine.Graph, writes []machine.ArtifactWrite) error {
	for i := range writes {
		w := &writes[i]
		if IsJSON(g.Artifacts[w.Name].Type) && json.Valid(w.Value) {
			if err := CheckJSON("artifacts["+w.Name+"]", w.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Compact removes spaces from a JSON value. It returns false if there was nothing to remove, or if the
// value is not JSON.
func Compact(v []byte) ([]byte, bool) {
	if !bytes.ContainsAny(v, " \t\r\n") {
		return v, false
	}
	var out bytes.Buffer
	if err := json.Compact(&out, v); err != nil || out.Len() == len(v) {
		return v, false
	}
	return out.Bytes(), true
}

// IsJSON reports whether a media type means JSON: application/json, or a type that ends with +json. The
// machine uses the same rule.
func IsJSON(mediaType string) bool {
	if mediaType == "application/json" {
		return true
	}
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}
