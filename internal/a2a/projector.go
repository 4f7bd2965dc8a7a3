package a2a

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These are the metadata keys that the server adds to tasks and events for its clients.
const (
	// generationKey is the metadata key of the number of a record. In an event this is the record that
	// caused the event. In a task it is the newest record that caused an event. The number never falls.
	// Events of the same record have the same number.
	generationKey = "pawl.dev/generation"
	// lostKey is the metadata key of an event that was lost because the run ended: the object
	// {"event", "intended_state", "refused": [{"state", "guard"}]}.
	lostKey = "pawl.lost"
	// steerKey is the metadata key of a steering message in the history. Its value is the time when the
	// message takes effect: "next_model_call", "now" or "next_turn".
	steerKey = "pawl.dev/steer"
)

var steerWords = map[machine.SteerWhen]string{
	machine.NextModelCall: "next_model_call", machine.SteerNow: "now", machine.NextTurn: "next_turn",
}

// event is one event of a task, or one message of its history.
type event struct {
	// seq is the number of the record that caused the event. Clients see it as the generation of the
	// event.
	seq uint64
	// update is the event that streams send. It is nil for a message that is only in the history.
	update *a2apb.StreamResponse
	// message is a message of the history: a received one, a steering message, or the one about a
	// decision. It is nil for updates.
	message *a2apb.Message
}

// projector converts the records of one run to the events of a task. It uses only these records, the
// graph of the run and the redaction for the reader, so the same journal and redaction always result in the
// same events. The exception is turnAssigned, which reports that a worker has received the first turn.
type projector struct {
	taskID, contextID string
	graph             *machine.Graph
	// pack is the digest of the run's pack.
	pack      string
	redaction *redaction

	// These fields are the current state of the run after the records that were read.
	seq uint64
	// version is the version of the rules (semantics) by which the last commit was made.
	version                  machine.Semantics
	current                  string
	open, suspended, backoff bool
	started                  bool
	// entered is the number of the record that opened the first turn.
	entered       uint64
	await         machine.Awaiting
	openQuestions []agentQuestion
	// heldCalls are the tool calls without an answer that wait, or have waited, for a person's decision.
	// questionChanged reports whether a call has begun or stopped waiting since the last question.
	heldCalls       []heldCall
	questionChanged bool
	// questionHasHeld reports whether the last sent status asks for decisions about tool calls.
	questionHasHeld bool
	// undoing reports whether the effects of the run's tools are being compensated, before the run ends or continues.
	undoing bool
	// final is the status with which the run ended, or 0 if it has not ended. run is the run's current
	// status, and since is the time when this status began.
	final, run machine.Status
	reason     string
	// lostEvent is the event that was lost because the run ended. It is nil if there is none.
	lostEvent *structpb.Value
	// usage is the amount that the run has consumed so far. It is sent to the delegating run when this
	// run ends.
	usage machine.Usage
	child bool
	fault machine.Fault

	// These fields are the last sent status: its state, its time in Unix nanoseconds, and the workflow
	// state to which an INPUT_REQUIRED belongs.
	state        a2apb.TaskState
	since        int64
	awaitedInput machine.Awaiting
	where        string
	// question is the message of the next status. reply is the message that the sender receives instead
	// of a task.
	question *a2apb.Message
	reply    *a2apb.Message
	// gatheredOutput is the output of earlier turns that was not yet sent, because the agent continued without the user
	// (control: agent, PromptPack RFC 0014). It becomes part of the next reply.
	gatheredOutput []machine.Part
	// writtenArtifacts contains the artifacts that have at least one part.
	writtenArtifacts map[string]bool
}

// agentQuestion is a delegation whose agent waits for an answer.
type agentQuestion struct {
	step     uint32
	awaiting machine.Awaiting
	question []machine.Part
}

func newProjector(s *machine.State, g *machine.Graph) *projector {
	p := &projector{taskID: s.RunID, pack: s.Digest, graph: g, writtenArtifacts: map[string]bool{}, child: s.Parent != nil}
	if s.Task != nil {
		p.contextID = s.Task.ContextID
	}
	return p
}

// commit converts the records of one commit and returns their events in order. version is the version of the rules
// (semantics) by which the commit was made. If there are several statuses, it returns only the status at the end of
// the commit, and before it the one with which the first turn began.
func (p *projector) commit(version machine.Semantics, records []machine.Record) []event {
	p.version = version
	var events []event
	for i := range records {
		p.seq = records[i].Seq
		protocol.AddUsage(&p.usage, records[i].Body)
		events = append(events, p.record(&records[i], records[i+1:])...)
	}
	if len(records) == 0 {
		return nil
	}
	return append(events, p.settle(records[len(records)-1].At)...)
}

// record converts one record. rest are the records after it in the same commit.
func (p *projector) record(r *machine.Record, rest []machine.Record) []event {
	switch b := r.Body.(type) {
	case *machine.InputReceived:
		p.answered(b.Step)
		return []event{{seq: r.Seq, message: p.received(b)}}
	case *machine.Transition:
		p.started = p.started || b.Cause != machine.CauseEntry
		p.entered = cmp.Or(p.entered, r.Seq)
		p.current, p.undoing = b.To, false
		p.opened()
		p.open = !b.AwaitsInput
		if p.external() {
			return append(p.output(nil), p.artifacts(r)...)
		}
	case *machine.TurnOpened:
		p.started = true
		p.opened()
	case *machine.TurnAssigned:
		p.backoff = false
		return p.begin(r.At)
	case *machine.OutputWritten:
		p.backoff = false
		return append(p.begin(r.At), p.convertPiece(r.Seq, &b.Piece))
	case *machine.TurnCompleted:
		p.open, p.await = false, b.Await
		return append(p.completed(b, rest), p.artifacts(r)...)
	case *machine.TurnFailed:
		p.started, p.fault = true, b.Error
		p.suspended, p.backoff = false, b.Next != 0
	case *machine.TurnAbandoned, *machine.Stopped:
		p.open, p.suspended, p.backoff = false, false, false
	case *machine.CompensationStarted:
		p.undoing = true
	case *machine.Steered:
		return []event{{seq: r.Seq, message: p.steered(b)}}
	case *machine.TurnSuspended:
		p.suspended, p.backoff = true, false
	case *machine.TurnReady:
		p.suspended, p.backoff = false, false
	case *machine.StepRequested:
		p.stepRequested(b)
	case *machine.StepDelegated:
		p.delegated(b)
	case *machine.StepDecided:
		return p.decided(r.Seq, b)
	case *machine.StepCancelled:
		p.finishStep(b.Step)
	case *machine.StepResolved:
		p.finishStep(b.Step)
	case *machine.Ended:
		p.final, p.reason, p.open, p.lostEvent = b.Status, b.Reason, false, lostToProto(b)
		return append(p.output(nil), p.artifacts(r)...)
	}
	return p.artifacts(r)
}

// opened records that a turn is open.
func (p *projector) opened() {
	p.open, p.suspended, p.backoff, p.await = true, false, false, machine.AwaitNothing
}

// begin returns an event which says that the task is being executed. It returns this event only once.
func (p *projector) begin(at int64) []event {
	if p.started || p.state != a2apb.TaskState_TASK_STATE_SUBMITTED {
		p.started = true
		return nil
	}
	p.started = true
	return p.settle(at)
}

// turnAssigned returns an event which says that a worker has the first turn. It returns this event only
// once, because a later record of the execution would cause the same event.
func (p *projector) turnAssigned(turn uint64) []event {
	if p.started || turn != p.entered || p.state != a2apb.TaskState_TASK_STATE_SUBMITTED {
		return nil
	}
	return p.begin(p.since)
}

// received converts a received message for the history.
func (p *projector) received(b *machine.InputReceived) *a2apb.Message {
	m := &a2apb.Message{
		MessageId: b.MessageID, TaskId: p.taskID, ContextId: p.contextID,
		Role: a2apb.Role_ROLE_USER, Parts: protocol.PartsToProto(b.Parts),
	}
	if e := b.Envelope; e != nil {
		m.MessageId, m.Extensions, m.ReferenceTaskIds = e.MessageID, e.Extensions, e.References
		m.Metadata = protocol.ObjectToProto(e.Metadata)
	}
	if m.MessageId == "" {
		m.MessageId = p.messageID()
	}
	return m
}

// steered converts a steering message for the history.
func (p *projector) steered(b *machine.Steered) *a2apb.Message {
	return &a2apb.Message{
		MessageId: p.messageID(), TaskId: p.taskID, ContextId: p.contextID, Role: a2apb.Role_ROLE_USER,
		Parts:    []*a2apb.Part{textPart(b.Text)},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{steerKey: structpb.NewStringValue(steerWords[b.When])}},
	}
}

// messageID returns the id of a message that has none of its own. It consists of the task and the record.
func (p *projector) messageID() string { return fmt.Sprintf("%s/%d", p.taskID, p.seq) }

func (p *projector) agentMessage(parts []*a2apb.Part) *a2apb.Message {
	if len(parts) == 0 {
		return nil
	}
	return &a2apb.Message{
		MessageId: p.messageID(), TaskId: p.taskID, ContextId: p.contextID,
		Role: a2apb.Role_ROLE_AGENT, Parts: parts,
	}
}

// completed converts the output of a turn. If the agent continues without the user, the output is
// gathered and not sent. Else it becomes a question if the run then waits for input. Otherwise it becomes
// a reply or an artifact.
func (p *projector) completed(b *machine.TurnCompleted, rest []machine.Record) []event {
	p.started = true
	switch {
	case p.gathersOutput(b.Event, rest):
		p.gatheredOutput = slices.Concat(p.gatheredOutput, b.Output)
		return nil
	case waits(b, rest):
		p.question = p.agentMessage(protocol.PartsToProto(p.takeReply(b.Output)))
		return nil
	case b.Reply:
		p.reply = p.agentMessage(protocol.PartsToProto(p.takeReply(b.Output)))
		return nil
	}
	return p.output(b.Output)
}

// takeReply returns the output of earlier turns that was not sent yet, together with the output of the last turn.
func (p *projector) takeReply(last []machine.Part) []machine.Part {
	reply := slices.Concat(p.gatheredOutput, last)
	p.gatheredOutput = nil
	return reply
}

// output returns an artifact with the output of earlier turns that was not sent yet and the output of the last turn.
// It returns no event if both are empty.
func (p *projector) output(last []machine.Part) []event {
	parts := p.takeReply(last)
	if len(parts) == 0 {
		return nil
	}
	artifact := &a2apb.Artifact{ArtifactId: p.outputID(), Name: p.outputID(), Parts: protocol.PartsToProto(parts)}
	return []event{p.artifact(p.seq, artifact, false, true)}
}

// gathersOutput reports whether the output of a completed turn is gathered instead of sent, because the agent continues
// without the user. The run of a delegation has no user: the result of the delegation is the output of the last turn.
// Before version 8 of the semantics, the field control of a state had no effect.
func (p *projector) gathersOutput(event string, rest []machine.Record) bool {
	if p.child || p.version < machine.SemanticsControl {
		return false
	}
	from := p.graph.States[p.current]
	for i := range rest {
		switch next := rest[i].Body.(type) {
		case *machine.Transition:
			return !next.AwaitsInput && goesOn(from, p.graph.States[next.To])
		case *machine.CompensationStarted:
			// The transition follows in a later commit.
			to := p.graph.States[from.OnEvent[event]]
			return to != nil && (goesOn(from, to) || !to.Terminal && to.Orchestration != machine.External && to.Control == machine.ControlUser)
		}
	}
	return false
}

// goesOn reports whether the agent continues in the state it entered without a message from the user. It does if that
// state has control: agent, or if it is terminal and the state before it has control: agent. It never does in a state
// with external orchestration.
func goesOn(from, to *machine.Node) bool {
	if to.Orchestration == machine.External {
		return false
	}
	return to.Control == machine.ControlAgent || to.Terminal && from.Control == machine.ControlAgent
}

// waits reports whether the run waits for an input after the completed turn: no later record of the commit
// continues it.
func waits(b *machine.TurnCompleted, rest []machine.Record) bool {
	moved := false
	for i := range rest {
		switch next := rest[i].Body.(type) {
		case *machine.TurnOpened, *machine.Ended:
			return false
		case *machine.Transition:
			if !next.AwaitsInput {
				return false
			}
			moved = true
		}
	}
	return moved || b.Event == ""
}

func (p *projector) outputID() string {
	if _, taken := p.graph.Artifacts[protocol.OutputArtifact]; taken {
		return protocol.TurnArtifact
	}
	return protocol.OutputArtifact
}

// convertPiece converts a part of an artifact that a running turn writes. An artifact must have at least one
// part, so an empty last piece becomes an empty text.
func (p *projector) convertPiece(seq uint64, b *machine.OutputPiece) event {
	artifact := &a2apb.Artifact{
		ArtifactId: b.ID, Name: b.Name, Description: b.Description,
		Parts: protocol.PartsToProto(b.Parts), Metadata: protocol.ObjectToProto(b.Metadata),
	}
	if len(artifact.Parts) == 0 {
		artifact.Parts = []*a2apb.Part{textPart("")}
	}
	return p.artifact(seq, artifact, b.Append, b.Last)
}

// artifacts converts the workflow artifacts that a record wrote.
func (p *projector) artifacts(r *machine.Record) []event {
	var events []event
	for _, w := range machine.ArtifactWrites(r.Body) {
		declared := p.graph.Artifacts[w.Name]
		artifact := &a2apb.Artifact{ArtifactId: w.Name, Name: w.Name, Parts: []*a2apb.Part{artifactPart(declared.Type, w.Value)}}
		events = append(events, p.artifact(r.Seq, artifact, declared.Mode == machine.Append, true))
	}
	return events
}

// artifact returns the event for a written artifact. The event appends to the artifact only if the
// artifact already has a part.
func (p *projector) artifact(seq uint64, a *a2apb.Artifact, more, last bool) event {
	more = more && p.writtenArtifacts[a.GetArtifactId()]
	p.writtenArtifacts[a.GetArtifactId()] = true
	return event{seq: seq, update: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{
		ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
			TaskId: p.taskID, ContextId: p.contextID, Artifact: a, Append: more, LastChunk: last,
			Metadata: generation(seq, ""),
		},
	}}}
}

// delegated records whether the agent of a delegation waits for an answer.
func (p *projector) delegated(b *machine.StepDelegated) {
	p.answered(b.Step)
	if b.Remote.Asking == machine.AwaitNothing {
		return
	}
	p.openQuestions = append(p.openQuestions, agentQuestion{b.Step, b.Remote.Asking, b.Question})
	slices.SortFunc(p.openQuestions, func(a, c agentQuestion) int { return int(a.step) - int(c.step) })
	p.question, p.questionChanged = p.agentMessage(protocol.PartsToProto(b.Question)), true
}

// finishStep records that a step needs no more answers, because it was answered or cancelled.
func (p *projector) finishStep(step uint32) {
	p.answered(step)
	p.letGo(step)
}

func (p *projector) answered(step uint32) {
	n := len(p.openQuestions)
	p.openQuestions = slices.DeleteFunc(p.openQuestions, func(a agentQuestion) bool { return step != 0 && a.step == step })
	p.questionChanged = p.questionChanged || len(p.openQuestions) != n
}

// awaiting returns what the run waits for: nothing, an input (an answer or a decision), or an authorization.
func (p *projector) awaiting() machine.Awaiting {
	switch {
	case p.final.Terminal():
		return machine.AwaitNothing
	case len(p.openQuestions) > 0:
		return p.openQuestions[0].awaiting
	case p.undoing:
		return machine.AwaitNothing
	case p.hasHeldCall():
		return machine.AwaitInput
	case !p.open && p.await == machine.AwaitAuth:
		return machine.AwaitAuth
	case !p.open, p.external():
		return machine.AwaitInput
	}
	return machine.AwaitNothing
}

func (p *projector) external() bool {
	node := p.graph.States[p.current]
	return node != nil && node.Orchestration == machine.External
}

// settle returns the event with the task's status after a commit, or no event if the status is not new. The time in
// it is the time at which the run's status began; SUBMITTED and WORKING count as one status for this.
func (p *projector) settle(at int64) []event {
	stale := p.updateQuestion()
	awaiting := p.awaiting()
	if awaiting != machine.AwaitNothing && !p.open && p.question == nil {
		p.question = p.agentMessage(protocol.PartsToProto(p.takeReply(nil)))
	}
	if status := p.status(awaiting); status != p.run || awaiting != p.awaitedInput || p.since == 0 {
		p.run, p.awaitedInput, p.since = status, awaiting, at
	}
	next, state := p.next(awaiting), ""
	if interrupted(next) {
		state = p.current
	}
	if next == p.state && state == p.where && p.question == nil && !(stale && interrupted(next)) {
		return nil
	}
	p.state, p.where = next, state
	status := &a2apb.TaskStatus{State: next, Timestamp: stampToProto(p.since), Message: p.statusMessage()}
	p.question = nil
	return []event{{seq: p.seq, update: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{
		StatusUpdate: &a2apb.TaskStatusUpdateEvent{
			TaskId: p.taskID, ContextId: p.contextID, Status: status, Metadata: p.ending(generation(p.seq, p.endReason())),
		},
	}}}}
}

func (p *projector) status(awaiting machine.Awaiting) machine.Status {
	switch {
	case p.final.Terminal():
		return p.final
	case !p.open || p.undoing || p.suspended || p.backoff || awaiting != machine.AwaitNothing:
		return machine.Waiting
	}
	return machine.Running
}

func (p *projector) next(awaiting machine.Awaiting) a2apb.TaskState {
	switch {
	case p.final.Terminal():
		return endState(p.final, p.reason)
	case awaiting != machine.AwaitNothing:
		return awaitState(awaiting)
	case !p.started:
		return a2apb.TaskState_TASK_STATE_SUBMITTED
	}
	return a2apb.TaskState_TASK_STATE_WORKING
}

func (p *projector) endReason() string {
	if p.final.Terminal() {
		return p.reason
	}
	return ""
}

// statusMessage returns the message of the agent in a status.
func (p *projector) statusMessage() *a2apb.Message {
	switch p.state {
	case a2apb.TaskState_TASK_STATE_COMPLETED:
		return p.reply
	case a2apb.TaskState_TASK_STATE_FAILED, a2apb.TaskState_TASK_STATE_REJECTED:
		return p.agentMessage([]*a2apb.Part{textPart(p.explainEnd())})
	case a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		if p.question == nil && p.open && len(p.openQuestions) == 0 && !p.hasHeldCall() {
			return p.agentMessage([]*a2apb.Part{textPart(p.events())})
		}
		return p.question
	}
	return nil
}

// explainEnd returns the reason why the run ended. If an error of the executor was the reason, the result
// contains this error.
func (p *projector) explainEnd() string {
	if p.fault.Code == "" || p.reason != "turn_failed" && p.reason != reasonRejected {
		return p.reason
	}
	return strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", p.reason, p.fault.Code, p.fault.Message), ": ")
}

// events returns a text with the events that a caller may send in the current state.
func (p *projector) events() string {
	var names []string
	if node := p.graph.States[p.current]; node != nil && !node.Terminal {
		for name := range node.OnEvent {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return fmt.Sprintf("state %s waits to be completed from outside", p.current)
	}
	return fmt.Sprintf("state %s waits for one of the events %s", p.current, strings.Join(names, ", "))
}

// ending adds to metadata what belongs to the end of a run: its status, for a delegated run its usage, and the event
// that was lost. It adds nothing while the run has not ended.
func (p *projector) ending(metadata *structpb.Struct) *structpb.Struct {
	if p.final.Terminal() {
		metadata.Fields[protocol.StatusKey] = structpb.NewStringValue(p.run.String())
		if p.child {
			metadata.Fields[protocol.DelegationURI] = protocol.UsageToProto(p.usage)
		}
		if p.lostEvent != nil {
			metadata.Fields[lostKey] = p.lostEvent
		}
	}
	return metadata
}

// lostToProto converts the event that was lost because the run ended. It returns nil if there is none.
func lostToProto(b *machine.Ended) *structpb.Value {
	if b.Event == "" && b.Intended == "" {
		return nil
	}
	refused := make([]*structpb.Value, len(b.Redirects))
	for i, r := range b.Redirects {
		refused[i] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"state": structpb.NewStringValue(r.State), "guard": structpb.NewStringValue(r.Guard),
		}})
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"event": structpb.NewStringValue(b.Event), "intended_state": structpb.NewStringValue(b.Intended),
		"refused": structpb.NewListValue(&structpb.ListValue{Values: refused}),
	}})
}

// generation returns the metadata of an event.
func generation(seq uint64, reason string) *structpb.Struct {
	fields := map[string]*structpb.Value{generationKey: structpb.NewNumberValue(float64(seq))}
	if reason != "" {
		fields[protocol.ReasonKey] = structpb.NewStringValue(reason)
	}
	return &structpb.Struct{Fields: fields}
}
