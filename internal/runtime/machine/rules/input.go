package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CheckUsage returns an error if a figure is negative, because that would increase the remaining budget. It
// also returns an error if a part (cached or reasoning tokens) is larger than its total.
func CheckUsage(u machine.Usage) error {
	refusal := &machine.Error{Code: machine.CodeInvalidArgument, Reason: "BAD_USAGE"}
	switch {
	case min(u.InputTokens, u.OutputTokens, u.CachedTokens, u.ReasoningTokens, u.CostMicro) < 0 || u.ToolCalls < 0:
		refusal.Reason, refusal.Field, refusal.Message = "NEGATIVE_USAGE", "usage", "usage figures must be 0 or more"
	case u.CachedTokens > u.InputTokens:
		refusal.Field, refusal.Message = "usage.cached_tokens", "are a part of input_tokens, and there are more of them"
		refusal.Limit, refusal.Got = u.InputTokens, u.CachedTokens
	case u.ReasoningTokens > u.OutputTokens:
		refusal.Field, refusal.Message = "usage.reasoning_tokens", "are a part of output_tokens, and there are more of them"
		refusal.Limit, refusal.Got = u.OutputTokens, u.ReasoningTokens
	default:
		return nil
	}
	return refusal
}

// ExpectedSeq returns the seq that the caller expects the run's last transition to have. 0 means that the
// command does not check it.
func ExpectedSeq(c machine.Command) uint64 {
	switch c := c.(type) {
	case machine.EmitEvent:
		return c.ExpectedSeq
	case machine.SendInput:
		return c.ExpectedSeq
	case machine.SetArtifacts:
		return c.ExpectedSeq
	case machine.CompleteTurn:
		return c.ExpectedSeq
	}
	return 0
}

// First returns the first error in a list of check results, or nil.
func First(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckDelegation checks a change of a delegation. An attempt has only one task at the agent. The answer in
// the command must be the answer that waits to be sent.
func CheckDelegation(step *machine.ToolStep, c *machine.NoteDelegation) error {
	if !step.Delegation {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "NO_DELEGATION", Field: "step",
			Message: fmt.Sprintf("step %d calls the tool %q, which is no agent", step.Step, step.Tool),
		}
	}
	known := step.Remote
	if known != nil && known.TaskID != "" && known.TaskID != c.Remote.TaskID {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "DELEGATION_MOVED", Field: "task_id",
			Message: fmt.Sprintf("the delegation is task %q, not %q", known.TaskID, c.Remote.TaskID),
		}
	}
	if c.Remote.Answer != 0 && (known == nil || known.Answer != c.Remote.Answer) {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_ANSWER", Field: "answer",
			Message: fmt.Sprintf("record %d is not the answer that waits to be sent", c.Remote.Answer),
		}
	}
	return nil
}

// CheckReject returns an error for a report of a failed turn that rejects the work and also asks for another
// attempt.
func CheckReject(c *machine.FailTurn) error {
	if !c.Reject || !c.Retryable {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "REJECT_RETRYABLE", Field: "retryable",
		Message: "work that is refused is not tried again",
	}
}

// PieceBytes returns the number of bytes that a piece of output adds to the run's messages.
func PieceBytes(p *machine.OutputPiece) int64 {
	return PartsBytes(p.Parts) + int64(len(p.ID)+len(p.Name)+len(p.Description)+len(p.Metadata))
}

// CheckPiece checks that a piece of output has an id, and that it has parts unless it is the last piece.
func CheckPiece(p *machine.OutputPiece) error {
	if p.ID == "" {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "OUTPUT_ID_REQUIRED", Field: "piece.id", Message: "name the artifact that the parts belong to"}
	}
	if len(p.Parts) == 0 && !p.Last {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_PARTS", Field: "piece.parts", Message: "a piece without parts must be the last one"}
	}
	return nil
}

// CheckSteer checks that a steering message (sent by a person to an active run) has a text and says when it
// takes effect.
func CheckSteer(c *machine.Steer) error {
	if c.Text == "" {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_TEXT", Field: "text", Message: "say something"}
	}
	if !c.When.Known() {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "WHEN_UNKNOWN", Field: "when", Message: "say when it counts",
			Allowed: []string{"next_model_call", "now", "next_turn"},
		}
	}
	return nil
}

// CheckModelRequest checks that the command to call a model contains a request.
func CheckModelRequest(c *machine.RequestModel) error {
	if c.Model != nil {
		return nil
	}
	return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_REQUESTS", Field: "request", Message: "say what the model is asked"}
}

// NotModel returns the error for a model command about a step that is not a model call.
func NotModel(step *machine.ToolStep, key string) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "key",
		Message: fmt.Sprintf("step %d with the key %q calls the tool %q, no model", step.Step, key, step.Tool),
	}
}

// RequestBytes returns the number of bytes that a model request adds to the run's messages.
func RequestBytes(r *machine.ModelRequest) int64 {
	n := int64(len(r.System.Text) + len(r.Tools.Text) + len(r.Parameters.Text))
	for i := range r.Messages {
		if m := r.Messages[i].Message; m != nil {
			n += MessagesBytes([]machine.Message{*m})
		}
	}
	return n
}

// AnswerBytes returns the number of bytes that a model's answer adds to the run's messages.
func AnswerBytes(a *machine.ModelAnswer) int64 {
	n := PartsBytes(a.Parts) + int64(len(a.Refusal)+len(a.Provider))
	for _, call := range a.Calls {
		n += int64(len(call.ID) + len(call.Name) + len(call.Arguments) + len(call.Broken))
	}
	return n
}

// CallKey returns the key of the step that executes a tool call in a model's answer. It returns an error if
// the answer has none. field is the path of the request field for the error.
func CallKey(steps []machine.ToolStep, ref *machine.CallRef, field string) (string, error) {
	i := FindStep(steps, ref.Step)
	if i < 0 || steps[i].Model == nil || steps[i].Status != machine.StepStatusOK {
		return "", &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: field + ".model_step",
			Message: fmt.Sprintf("step %d is no answered call of a model in this visit", ref.Step),
		}
	}
	if n := steps[i].Model.Calls; ref.Index < 0 || ref.Index >= n {
		return "", &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_CALL", Field: field + ".index",
			Message: fmt.Sprintf("the model made %d calls, counted from 0", n), Limit: int64(n) - 1, Got: int64(ref.Index),
		}
	}
	return steps[i].Key + "/" + strconv.Itoa(ref.Index), nil
}

// The checks below are those of semantics §4 that the machine makes. They are called in the order of their
// numbers. Each returns nil or a *[machine.Error]. None changes the state.

// checkOpen returns an error if the run has ended, because an ended run accepts no input (check 4).
func (t *txn) checkOpen() error {
	if !t.s.Status.Terminal() {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "RUN_TERMINAL", Field: "run_id",
		Message: fmt.Sprintf("the run ended %s (%s)", t.s.Status, t.s.Reason), Seq: t.s.Seq,
	}
}

// checkUnpaused returns an error if the run is paused. It is called for events and for requests of steps, which a
// paused run does not accept.
func (t *txn) checkUnpaused() error {
	if !t.s.Paused {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "PAUSED", Field: "run_id",
		Message: "the run is paused; resume it first",
	}
}

// checkTurn returns an error unless turn seq is the open turn and attempt is its current attempt.
func (t *txn) checkTurn(seq uint64, attempt int) error {
	turn := t.s.Turn
	if turn != nil && turn.Seq == seq && turn.Attempt == attempt {
		return nil
	}
	r := &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "TURN_STALE", Field: "turn_seq"}
	if turn == nil {
		r.Message = fmt.Sprintf("turn %d attempt %d: no turn is open", seq, attempt)
		return r
	}
	r.Seq = turn.Seq
	r.Message = fmt.Sprintf("turn %d attempt %d: the open turn is %d attempt %d", seq, attempt, turn.Seq, turn.Attempt)
	return r
}

// CheckExpected returns an error if the command has an expected seq that is not the seq of the run's last
// transition (check 5). The engine calls it before it checks the rights of the caller, so that the slower of
// two competing callers learns which transition was made first. [Step] calls it in every case. A run that
// has ended is not checked here, because check 4 returns its error. An imported run has an error of its own, too.
func CheckExpected(s *machine.State, c machine.Command) error {
	want := ExpectedSeq(c)
	if want == 0 || want == s.VisitSeq || s.Status.Terminal() || s.Imported {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeAborted, Reason: "SEQ_MISMATCH", Field: "expected_seq",
		Message: fmt.Sprintf("the last transition is record %d, not %d", s.VisitSeq, want),
		Seq:     s.VisitSeq,
	}
}

// checkEvent returns an error if the current state does not declare the event (check 7). A terminal state
// accepts no events.
func (t *txn) checkEvent(event string) error {
	n := t.node()
	if !n.Terminal && n.OnEvent[event] != "" {
		return nil
	}
	r := &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "UNKNOWN_EVENT", Field: "event",
		Message: fmt.Sprintf("state %q does not take event %q", n.Name, event),
	}
	if n.Terminal {
		r.Message = fmt.Sprintf("state %q is terminal and takes no event: the run ends when its turn is completed without one", n.Name)
		return r
	}
	r.Allowed = slices.Sorted(maps.Keys(n.OnEvent))
	return r
}

// PartsBytes returns the number of bytes that parts add to the run's messages.
func PartsBytes(parts []machine.Part) int64 {
	var n int
	for i := range parts {
		p := &parts[i]
		n += len(p.Text) + len(p.Data) + len(p.MediaType) + len(p.Filename) + len(p.Metadata)
	}
	return int64(n)
}

// MessagesBytes returns the size of messages in bytes, including their tool calls and provider data.
func MessagesBytes(messages []machine.Message) int64 {
	var n int64
	for i := range messages {
		m := &messages[i]
		n += PartsBytes(m.Parts) + int64(len(m.ToolCalls)+len(m.ToolCallID)+len(m.Provider)+len(m.Refusal)) + EnvelopeBytes(m.Envelope)
	}
	return n
}

// EnvelopeBytes returns the number of bytes that an envelope adds to the run's messages.
func EnvelopeBytes(e *machine.Envelope) int64 {
	if e == nil {
		return 0
	}
	n := len(e.MessageID) + len(e.ContextID) + len(e.Metadata)
	for _, s := range e.References {
		n += len(s)
	}
	for _, s := range e.Extensions {
		n += len(s)
	}
	return int64(n)
}

// CheckStart checks the execution, the id, the depth, the labels and the bounds of a new run.
func CheckStart(g *machine.Graph, c *machine.Start) error {
	if !c.Execution.Known() {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "EXECUTION_REQUIRED", Field: "execution",
			Message: "say who executes the turns", Allowed: []string{"CALLER", "WORKERS", "SIDECAR"},
		}
	}
	if c.RunID == "" {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "RUN_ID_REQUIRED", Field: "run_id", Message: "must not be empty"}
	}
	if c.Depth < 0 || c.Depth > machine.MaxDepth {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "DEPTH_EXCEEDED", Field: "depth",
			Message: fmt.Sprintf("delegations nest at most %d deep", machine.MaxDepth), Limit: machine.MaxDepth, Got: int64(c.Depth),
		}
	}
	if g.States[g.Entry] == nil {
		return &machine.Error{Code: machine.CodeInternal, Reason: "GRAPH_INVALID", Field: "entry", Message: fmt.Sprintf("no state %q", g.Entry)}
	}
	return First(CheckLabels(c.Labels), CheckBounds(c))
}

// CheckLabels checks that label keys are unique and not empty.
func CheckLabels(labels []machine.Label) error {
	seen := make(map[string]bool, len(labels))
	for _, l := range labels {
		if l.Key == "" || seen[l.Key] {
			return &machine.Error{
				Code: machine.CodeInvalidArgument, Reason: "BAD_LABEL", Field: "labels[" + l.Key + "]",
				Message: "label keys must be unique and not empty",
			}
		}
		seen[l.Key] = true
	}
	return nil
}

// CheckBounds returns an error for negative bounds. Only 0 means that the default applies.
func CheckBounds(c *machine.Start) error {
	l := &c.Limits
	bounds := []struct {
		field string
		n     int64
	}{
		{"limits.max_transitions", int64(l.MaxTransitions)},
		{"limits.max_artifact_bytes", l.MaxArtifactBytes},
		{"limits.max_run_artifact_bytes", l.MaxRunArtifactBytes},
		{"limits.max_message_bytes", l.MaxMessageBytes},
		{"limits.max_queued_inputs", int64(l.MaxQueuedInputs)},
		{"max_wall_time", int64(c.MaxWallTime)},
		{"max_steps", int64(c.MaxSteps)},
		{"lease.tokens", c.Lease.Tokens},
		{"lease.cost_micro_usd", c.Lease.CostMicro},
		{"lease.tool_calls", c.Lease.ToolCalls},
	}
	for _, b := range bounds {
		if b.n < 0 {
			return &machine.Error{
				Code: machine.CodeInvalidArgument, Reason: "BAD_LIMIT", Field: b.field,
				Message: "must be 0 (the default) or more", Got: b.n,
			}
		}
	}
	return nil
}

// WithDefaults returns the limits with the default for each limit that is not set.
func WithDefaults(l machine.Limits) machine.Limits {
	return machine.Limits{
		MaxTransitions:      OrDefault(l.MaxTransitions, machine.DefaultMaxTransitions),
		MaxArtifactBytes:    OrDefault(l.MaxArtifactBytes, machine.DefaultMaxArtifactBytes),
		MaxRunArtifactBytes: OrDefault(l.MaxRunArtifactBytes, machine.DefaultMaxRunArtifactBytes),
		MaxMessageBytes:     OrDefault(l.MaxMessageBytes, machine.DefaultMaxMessageBytes),
		MaxQueuedInputs:     OrDefault(l.MaxQueuedInputs, machine.DefaultMaxQueuedInputs),
	}
}

// RunExists returns the error for a start with a run id that is already used.
func RunExists(s *machine.State) error {
	return &machine.Error{
		Code: machine.CodeAlreadyExists, Reason: "RUN_EXISTS", Field: "run_id", Message: "the run exists: " + s.RunID, Seq: s.Seq,
	}
}

// CheckSource checks that the source of a fork had not ended at the record of the fork and was not undoing its
// effects, that the graph has everything that the copy needs, and that the queued inputs fit in the copy.
func CheckSource(g *machine.Graph, c *machine.Fork) error {
	if c.From == nil {
		return &machine.Error{Code: machine.CodeInternal, Reason: "FORK_INVALID", Field: "from", Message: "a fork needs its source's state"}
	}
	if c.From.Status.Terminal() {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "FORK_TERMINAL", Field: "at_seq", Seq: c.From.Seq,
			Message: fmt.Sprintf("the run had ended %s (%s) there: fork it at an earlier record", c.From.Status, c.From.Reason),
		}
	}
	if c.From.Undo != nil {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "FORK_COMPENSATING", Field: "at_seq", Seq: c.From.Seq,
			Message: "the run's effects were being undone there: fork it at an earlier record",
		}
	}
	return First(CheckStates(g, c.From), CheckHeads(g, c.From), CheckQueued(c))
}

// CheckStates checks that every state that the source of a fork has visited exists in the graph of the copy.
func CheckStates(g *machine.Graph, from *machine.State) error {
	var missing []string
	for _, v := range append([]machine.Count{{State: from.Current}}, from.Visits...) {
		if g.States[v.State] == nil && !slices.Contains(missing, v.State) {
			missing = append(missing, v.State)
		}
	}
	if missing == nil {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "FORK_STATE_MISSING", Field: "pack", Allowed: StateNames(g),
		Message: fmt.Sprintf("the run visited %s, which %s@%s does not have", strings.Join(missing, ", "), g.PackID, g.PackVersion),
	}
}

// StateNames returns the states of a graph, sorted.
func StateNames(g *machine.Graph) []string {
	names := make([]string, 0, len(g.States))
	for name := range g.States {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckHeads checks that the graph declares every artifact of the source with the same type and mode.
func CheckHeads(g *machine.Graph, from *machine.State) error {
	for i := range from.Artifacts {
		h := &from.Artifacts[i]
		if decl, ok := g.Artifacts[h.Name]; !ok || decl.Type != h.Type || decl.Mode != h.Mode {
			return &machine.Error{
				Code: machine.CodeFailedPrecondition, Reason: "FORK_ARTIFACT_MISMATCH", Field: Field(h.Name),
				Message: fmt.Sprintf("%s@%s does not declare it as the run has it (%s)", g.PackID, g.PackVersion, h.Type),
			}
		}
	}
	return nil
}

// CheckQueued checks that the inputs that waited for the end of the source's open turn fit in the queue of
// the copy. Steering messages are not counted.
func CheckQueued(c *machine.Fork) error {
	limit, got := WithDefaults(c.Limits).MaxQueuedInputs, 0
	for i := range c.Queued {
		if c.Queued[i].Steer == "" {
			got++
		}
	}
	if got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "at_seq",
		Message: fmt.Sprintf("%d inputs waited for the open turn", got), Limit: int64(limit), Got: int64(got),
	}
}
