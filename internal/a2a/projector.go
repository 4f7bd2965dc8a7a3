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

// Keys of metadata that the server adds.
const (
	// generationKey is the number of the record that an event tells of, on tasks the
	// newest one's. It grows with every event of a task.
	generationKey = "pawl.dev/generation"
	// lostKey is, at an end that took an event with it, that event: the object
	// {"event", "intended_state", "refused": [{"state", "guard"}]}.
	lostKey = "pawl.lost"
	// steerKey is the metadata key of a steering message in the history. Its value says when
	// the message takes effect: "next_model_call", "now" or "next_turn".
	steerKey = "pawl.dev/steer"
)

var steerWords = map[machine.SteerWhen]string{
	machine.NextModelCall: "next_model_call", machine.SteerNow: "now", machine.NextTurn: "next_turn",
}

// event is one thing that happened to a task.
type event struct {
	// seq is the record's number, the generation.
	seq uint64
	// update is what streams tell; nil for what only the history shows.
	update *a2apb.StreamResponse
	// message is what was received; nil for updates.
	message *a2apb.Message
}

// projector turns the records of one run into the events of a task. It uses only those records
// and the graph of the run: the same journal always makes the same events.
type projector struct {
	taskID, contextID string
	graph             *machine.Graph
	// pack is the digest of the run's pack.
	pack      string
	redaction *redaction

	// What the run stands at, followed by its records.
	seq                      uint64
	current                  string
	open, suspended, backoff bool
	started                  bool
	// entered is the record that opened the first turn.
	entered       uint64
	await         machine.Awaiting
	openQuestions []agentQuestion
	// held are the calls that were held and have no answer; requestion: one of those that
	// wait is new or gone.
	held            []heldCall
	questionChanged bool
	// questionHasHeld: the last sent status asks about held calls.
	questionHasHeld bool
	// undoing: the effects of the run are undone before it ends, or goes on.
	undoing bool
	// final is how the run ended, 0 = it goes on; run is its status as of since.
	final, run machine.Status
	reason     string
	// lost is the event that the end took with it; nil = none.
	lost *structpb.Value
	// usage is what the run has consumed so far. It is sent at the run's end to the delegating
	// run.
	usage machine.Usage
	child bool
	fault machine.Fault

	// The last sent status: its state and time (Unix nanoseconds), and the workflow state that
	// an INPUT_REQUIRED was about.
	state   a2apb.TaskState
	since   int64
	awaited machine.Awaiting
	where   string
	// question is the message of the status that comes next; reply answers the
	// sender instead of a task.
	question *a2apb.Message
	reply    *a2apb.Message
	// written are the artifacts that have a part.
	written map[string]bool
}

// agentQuestion is a delegation whose agent waits for an answer.
type agentQuestion struct {
	step     uint32
	what     machine.Awaiting
	question []machine.Part
}

func newProjector(s *machine.State, g *machine.Graph) *projector {
	p := &projector{taskID: s.RunID, pack: s.Digest, graph: g, written: map[string]bool{}, child: s.Parent != nil}
	if s.Task != nil {
		p.contextID = s.Task.ContextID
	}
	return p
}

// commit takes the records of one commit and returns its events in order. It returns only the
// status at the end of the commit.
func (p *projector) commit(records []machine.Record) []event {
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

// record follows one record; rest is what came with it in the same commit.
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
	case *machine.TurnOpened:
		p.started = true
		p.opened()
	case *machine.TurnAssigned:
		p.backoff = false
		return p.begin(r.At)
	case *machine.OutputWritten:
		p.backoff = false
		return append(p.begin(r.At), p.piece(r.Seq, &b.Piece))
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
		p.over(b.Step)
	case *machine.StepResolved:
		p.over(b.Step)
	case *machine.Ended:
		p.final, p.reason, p.open, p.lost = b.Status, b.Reason, false, lostToProto(b)
	}
	return p.artifacts(r)
}

// opened: a turn is open.
func (p *projector) opened() {
	p.open, p.suspended, p.backoff, p.await = true, false, false, machine.AwaitNothing
}

// begin returns, once, the status that the task is being executed.
func (p *projector) begin(at int64) []event {
	if p.started || p.state != a2apb.TaskState_TASK_STATE_SUBMITTED {
		p.started = true
		return nil
	}
	p.started = true
	return p.settle(at)
}

// turnAssigned tells, once, that the first turn was handed out, which its record of execution
// would tell later.
func (p *projector) turnAssigned(turn uint64) []event {
	if p.started || turn != p.entered || p.state != a2apb.TaskState_TASK_STATE_SUBMITTED {
		return nil
	}
	return p.begin(p.since)
}

// received is an inbound message in the history.
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

// steered is, in the history, what was said to a run that goes on.
func (p *projector) steered(b *machine.Steered) *a2apb.Message {
	return &a2apb.Message{
		MessageId: p.messageID(), TaskId: p.taskID, ContextId: p.contextID, Role: a2apb.Role_ROLE_USER,
		Parts:    []*a2apb.Part{textPart(b.Text)},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{steerKey: structpb.NewStringValue(steerWords[b.When])}},
	}
}

// messageID names what the agent says: task and record.
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

// completed makes a turn's output what it is: a question if the run waits behind
// it, a reply, or an artifact.
func (p *projector) completed(b *machine.TurnCompleted, rest []machine.Record) []event {
	p.started = true
	switch {
	case endsCommit(b, rest):
		p.question = p.agentMessage(protocol.PartsToProto(b.Output))
		return nil
	case b.Reply:
		p.reply = p.agentMessage(protocol.PartsToProto(b.Output))
		return nil
	case len(b.Output) == 0:
		return nil
	}
	artifact := &a2apb.Artifact{ArtifactId: p.outputID(), Name: p.outputID(), Parts: protocol.PartsToProto(b.Output)}
	return []event{p.artifact(p.seq, artifact, false, true)}
}

// endsCommit reports that no record of the commit continues the run after the completed turn.
func endsCommit(b *machine.TurnCompleted, rest []machine.Record) bool {
	if b.Event != "" {
		return false
	}
	return !slices.ContainsFunc(rest, func(r machine.Record) bool {
		switch r.Body.(type) {
		case *machine.TurnOpened, *machine.Transition, *machine.Ended:
			return true
		}
		return false
	})
}

func (p *projector) outputID() string {
	if _, taken := p.graph.Artifacts[protocol.OutputArtifact]; taken {
		return protocol.TurnArtifact
	}
	return protocol.OutputArtifact
}

// piece returns a part of an artifact that a running turn writes. An artifact needs a part, so
// an empty last piece gets an empty text.
func (p *projector) piece(seq uint64, b *machine.OutputPiece) event {
	artifact := &a2apb.Artifact{
		ArtifactId: b.ID, Name: b.Name, Description: b.Description,
		Parts: protocol.PartsToProto(b.Parts), Metadata: protocol.ObjectToProto(b.Metadata),
	}
	if len(artifact.Parts) == 0 {
		artifact.Parts = []*a2apb.Part{textPart("")}
	}
	return p.artifact(seq, artifact, b.Append, b.Last)
}

// artifacts are the workflow artifacts that a record wrote.
func (p *projector) artifacts(r *machine.Record) []event {
	var events []event
	for _, w := range machine.Written(r.Body) {
		declared := p.graph.Artifacts[w.Name]
		artifact := &a2apb.Artifact{ArtifactId: w.Name, Name: w.Name, Parts: []*a2apb.Part{artifactPart(declared.Type, w.Value)}}
		events = append(events, p.artifact(r.Seq, artifact, declared.Mode == machine.Append, true))
	}
	return events
}

// artifact makes the update. What has no part yet is not appended to.
func (p *projector) artifact(seq uint64, a *a2apb.Artifact, more, last bool) event {
	more = more && p.written[a.GetArtifactId()]
	p.written[a.GetArtifactId()] = true
	return event{seq: seq, update: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{
		ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
			TaskId: p.taskID, ContextId: p.contextID, Artifact: a, Append: more, LastChunk: last,
			Metadata: generation(seq, ""),
		},
	}}}
}

// delegated follows what the agent of a delegation waits for.
func (p *projector) delegated(b *machine.StepDelegated) {
	p.answered(b.Step)
	if b.Remote.Asking == machine.AwaitNothing {
		return
	}
	p.openQuestions = append(p.openQuestions, agentQuestion{b.Step, b.Remote.Asking, b.Question})
	slices.SortFunc(p.openQuestions, func(a, c agentQuestion) int { return int(a.step) - int(c.step) })
	p.question, p.questionChanged = p.agentMessage(protocol.PartsToProto(b.Question)), true
}

// over: a step is answered or cancelled.
func (p *projector) over(step uint32) {
	p.answered(step)
	p.letGo(step)
}

func (p *projector) answered(step uint32) {
	n := len(p.openQuestions)
	p.openQuestions = slices.DeleteFunc(p.openQuestions, func(a agentQuestion) bool { return step != 0 && a.step == step })
	p.questionChanged = p.questionChanged || len(p.openQuestions) != n
}

// awaiting is what the run waits for from outside.
func (p *projector) awaiting() machine.Awaiting {
	switch {
	case p.final.Terminal():
		return machine.AwaitNothing
	case len(p.openQuestions) > 0:
		return p.openQuestions[0].what
	case p.undoing:
		return machine.AwaitNothing
	case p.holds():
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

// settle tells the state that a commit has led to, if that is news. The time of
// a status is that of the run's: SUBMITTED and WORKING are one to the run.
func (p *projector) settle(at int64) []event {
	stale := p.updateQuestion()
	awaiting := p.awaiting()
	if status := p.status(awaiting); status != p.run || awaiting != p.awaited || p.since == 0 {
		p.run, p.awaited, p.since = status, awaiting, at
	}
	next, where := p.next(awaiting), ""
	if interrupted(next) {
		where = p.current
	}
	if next == p.state && where == p.where && p.question == nil && !(stale && interrupted(next)) {
		return nil
	}
	p.state, p.where = next, where
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

// statusMessage is what the agent says with a status.
func (p *projector) statusMessage() *a2apb.Message {
	switch p.state {
	case a2apb.TaskState_TASK_STATE_COMPLETED:
		return p.reply
	case a2apb.TaskState_TASK_STATE_FAILED, a2apb.TaskState_TASK_STATE_REJECTED:
		return p.agentMessage([]*a2apb.Part{textPart(p.why())})
	case a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		if p.question == nil && p.open && len(p.openQuestions) == 0 && !p.holds() {
			return p.agentMessage([]*a2apb.Part{textPart(p.events())})
		}
		return p.question
	}
	return nil
}

// why names the reason, and the executor's fault where that was it.
func (p *projector) why() string {
	if p.fault.Code == "" || p.reason != "turn_failed" && p.reason != reasonRejected {
		return p.reason
	}
	return strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", p.reason, p.fault.Code, p.fault.Message), ": ")
}

// events says how a state is left that is moved from outside.
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

// ending adds the status of a run that ended.
func (p *projector) ending(metadata *structpb.Struct) *structpb.Struct {
	if p.final.Terminal() {
		metadata.Fields[protocol.StatusKey] = structpb.NewStringValue(p.run.String())
		if p.child {
			metadata.Fields[protocol.DelegationURI] = protocol.UsageToProto(p.usage)
		}
		if p.lost != nil {
			metadata.Fields[lostKey] = p.lost
		}
	}
	return metadata
}

// lostToProto tells the event that an end took with it; nil = none.
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

// generation is the metadata of an event.
func generation(seq uint64, reason string) *structpb.Struct {
	fields := map[string]*structpb.Value{generationKey: structpb.NewNumberValue(float64(seq))}
	if reason != "" {
		fields[protocol.ReasonKey] = structpb.NewStringValue(reason)
	}
	return &structpb.Struct{Fields: fields}
}
