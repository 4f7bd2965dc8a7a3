package convert

import (
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// RunToProto converts the state of a run. allowed are the events that its current state declares, sorted.
func RunToProto(namespace string, s *machine.State, allowed []string) *pawlv1.Run {
	if namespace == "" {
		namespace = runtime.DefaultNamespace
	}
	out := &pawlv1.Run{
		Namespace: namespace, RunId: s.RunID, Pack: PackRefToProto(s.PackID, s.PackVersion, s.Digest),
		Entry: s.Entry, Agent: s.Agent, EntryOverride: s.EntryOverride, Execution: pawlv1.Execution(s.Execution),
		Labels: LabelsToProto(s.Labels), Status: pawlv1.RunStatus(s.Status), Reason: s.Reason, Paused: s.Paused,
		State: s.Current, Seq: s.Seq, VisitSeq: s.VisitSeq, AllowedEvents: allowed,
		CreatedAt: TimeToProto(s.CreatedAt), UpdatedAt: TimeToProto(s.At),
		Deadline: TimeToProto(s.Deadline), StateTimeoutAt: TimeToProto(s.StateTimeoutAt),
		QueuedInputs: int32(len(s.Queue)), Steps: stepsToProto(s.RunID, s.Steps), LastStep: s.LastStep,
		Artifacts: headsToProto(s.Artifacts), ArtifactBytes: s.ArtifactBytes, MessageBytes: s.MessageBytes,
		Parent: parentToProto(s.Parent), Depth: int32(s.Depth), Limits: limitsToProto(s.Limits),
		Awaiting: pawlv1.Awaiting(s.Awaiting), StatusAt: TimeToProto(s.StatusAt), Task: taskToProto(s.Task),
		ForkedFrom: forkedToProto(s.Forked), Imported: s.Imported, Erasable: s.Erasable, Erased: ErasureToProto(s.Erased),
		Compensating: s.Undo != nil, Conversation: s.Conversation,
	}
	countsToProto(out, s)
	if s.Turn != nil {
		out.Turn = &pawlv1.TurnRef{
			RunId: s.RunID, TurnSeq: s.Turn.Seq, State: s.Current, Visit: visitOf(s), Attempt: int32(s.Turn.Attempt),
		}
		out.TurnNotBefore = TimeToProto(s.Turn.NotBefore)
		out.TurnSuspended = s.Turn.Suspended
	}
	return out
}

// countsToProto sets the counts, the consumption and the reservations of a run.
func countsToProto(out *pawlv1.Run, s *machine.State) {
	out.TotalVisits, out.Transitions = int32(s.TotalVisits), int32(s.Transitions)
	out.ToolCalls, out.Reframes = int32(s.ToolCalls), int32(s.Reframes)
	out.Tokens, out.CostMicroUsd, out.EstimatedTokens = s.Tokens, s.CostMicro, s.EstimatedTokens
	out.ReservedTokens, out.ReservedCostMicroUsd = rules.Reserved(s, -1)
	lent := rules.LeasedAmount(s)
	out.LentTokens, out.LentCostMicroUsd = lent.Tokens, lent.CostMicro
	out.Accounts = sharesToProto(s.Charges)
	out.Leased = s.Account != nil && s.Account.Leased
	out.Visits = make(map[string]int32, len(s.Visits))
	for _, c := range s.Visits {
		out.Visits[c.State] = int32(c.N)
	}
	for _, e := range s.Edges {
		out.Edges = append(out.Edges, &pawlv1.EdgeCount{State: e.State, Event: e.Event, Count: int32(e.N)})
	}
}

// visitOf returns the number of the current visit of the current state.
func visitOf(s *machine.State) int32 {
	for _, c := range s.Visits {
		if c.State == s.Current {
			return int32(c.N)
		}
	}
	return 0
}

// turnToProto converts the reference to an open turn; nil means that none is open. The reference contains the turn's
// token if the caller may have it.
func turnToProto(s *machine.State, t *runtime.TurnRef) *pawlv1.TurnRef {
	if t == nil {
		return nil
	}
	return &pawlv1.TurnRef{
		RunId: s.RunID, TurnSeq: t.Seq, State: t.State, Visit: visitOf(s), Attempt: int32(t.Attempt), Token: t.Token,
	}
}

// LabelsToProto converts labels; nil for none.
func LabelsToProto(in []machine.Label) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for _, l := range in {
		out[l.Key] = l.Value
	}
	return out
}

// PackRefToProto returns the reference of a registered pack.
func PackRefToProto(id, version, digest string) *pawlv1.PackRef {
	return &pawlv1.PackRef{Id: id, Version: version, Digest: digest}
}

func parentToProto(p *machine.Parent) *pawlv1.Parent {
	if p == nil {
		return nil
	}
	return &pawlv1.Parent{RunId: p.RunID, Step: p.Step, Attempt: int32(p.Attempt), Origin: p.Origin}
}

func limitsToProto(l machine.Limits) *pawlv1.RunLimits {
	return &pawlv1.RunLimits{
		MaxTransitions: int32(l.MaxTransitions), MaxArtifactBytes: l.MaxArtifactBytes,
		MaxRunArtifactBytes: l.MaxRunArtifactBytes, MaxMessageBytes: l.MaxMessageBytes, MaxQueuedInputs: int32(l.MaxQueuedInputs),
	}
}

// BudgetsToProto converts the budgets of a run.
func BudgetsToProto(r *query.RunOrigin) *pawlv1.RunBudgets {
	b := &r.Budget
	out := &pawlv1.RunBudgets{
		MaxTotalVisits: int32(b.MaxTotalVisits), MaxToolCalls: int32(b.MaxToolCalls), MaxSteps: int32(b.MaxSteps),
		MaxReframes: int32(b.MaxReframes), MaxTokens: b.MaxTokens, MaxCostMicroUsd: b.MaxCostMicroUSD,
		WallTimeExcludesWaiting: r.WallExcludesWaiting,
	}
	if b.MaxWallTime != 0 {
		out.MaxWallTime = durationpb.New(b.MaxWallTime)
	}
	return out
}

// stepsToProto converts steps without their payloads and answers.
func stepsToProto(run string, in []machine.ToolStep) []*pawlv1.Step {
	var out []*pawlv1.Step
	for i := range in {
		out = append(out, stepToProto(run, &in[i]))
	}
	return out
}

func stepToProto(run string, s *machine.ToolStep) *pawlv1.Step {
	return &pawlv1.Step{
		Kind: kindToProto(s.Kind(), s.Delegation), Model: modelStepToProto(s), Call: callToProto(s.Call),
		Step: s.Step, Key: s.Key, Tool: s.Tool, Status: pawlv1.StepStatus(s.Status), Attempt: int32(s.Attempt),
		TurnSeq: s.TurnSeq, Deadline: TimeToProto(s.Deadline), Delegation: s.Delegation,
		Remote: remoteToProto(s.Remote), IdempotencyKey: machine.IdempotencyKey(run, s.Step), Approval: approvalToProto(s),
		About: aboutToProto(s.About), Inquiry: s.Inquiry, ByCaller: s.ByCaller,
	}
}

func headsToProto(in []machine.ArtifactHead) []*pawlv1.ArtifactHead {
	var out []*pawlv1.ArtifactHead
	for i := range in {
		out = append(out, headToProto(&in[i]))
	}
	slices.SortFunc(out, func(a, b *pawlv1.ArtifactHead) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	return out
}

func headToProto(h *machine.ArtifactHead) *pawlv1.ArtifactHead {
	return &pawlv1.ArtifactHead{
		Name: h.Name, MediaType: h.Type, Mode: modeToProto(h.Mode), Seq: h.Seq,
		Writes: int32(h.Writes), Bytes: h.Bytes, Hash: h.Hash[:],
	}
}

func modeToProto(m machine.Mode) pawlv1.ArtifactMode { return pawlv1.ArtifactMode(m + 1) }

// ArtifactsToProto converts the artifacts of a run and keeps their order. The head of an artifact is the one in heads
// with the same name, or is made from the artifact if heads has none.
func ArtifactsToProto(heads []machine.ArtifactHead, in []runtime.ArtifactValue) []*pawlv1.Artifact {
	var out []*pawlv1.Artifact
	for _, a := range in {
		head := &pawlv1.ArtifactHead{Name: a.Name, MediaType: a.Type, Mode: modeToProto(a.Mode), Seq: a.Seq, Bytes: int64(len(a.Value))}
		if i := slices.IndexFunc(heads, func(h machine.ArtifactHead) bool { return h.Name == a.Name }); i >= 0 {
			head = headToProto(&heads[i])
		}
		out = append(out, &pawlv1.Artifact{Head: head, Value: valueToProto(a.Type, a.Value)})
	}
	return out
}

// Answer is the engine's answer to a call, with everything that the response needs.
type Answer struct {
	runtime.Answer
	// Cursors finds the cursor of a record, from its journal entry and its index in the entry.
	Cursors interface {
		CursorAt(entry *machine.Entry, i int) runtime.Cursor
	}
}

// DeclaredTypes returns the media types of artifacts that a graph declares.
func DeclaredTypes(graph *machine.Graph) MediaTypes {
	return func(artifact string) string {
		if graph == nil {
			return ""
		}
		return graph.Artifacts[artifact].Type
	}
}

// Record converts the first record of a kind that the call wrote. It returns nil if there is none.
func (a *Answer) Record(kind machine.RecordKind) *pawlv1.Record {
	i := slices.IndexFunc(a.Entry.Records, func(r machine.Record) bool { return machine.RecordKindOf(r.Body) == kind })
	if i < 0 {
		return nil
	}
	rec := a.Entry.Records[i]
	row := &runtime.RecordRow{
		RunID: a.RunID, Record: rec, PrevSeq: rec.Seq - 1, Cursor: a.Cursors.CursorAt(&a.Entry, i),
		PrevHash: a.Entry.PrevHash, Hash: a.Entry.Hash,
	}
	var final []*pawlv1.Artifact
	if a.Final != nil {
		final = ArtifactsToProto(a.State.Artifacts, a.Final)
	}
	return RecordToProto(row, DeclaredTypes(a.Graph), final)
}

// Status returns the status of the run after the call.
func (a *Answer) Status() pawlv1.RunStatus {
	if a.State == nil {
		return pawlv1.RunStatus_RUN_STATUS_UNSPECIFIED
	}
	return pawlv1.RunStatus(a.State.Status)
}

// Seq returns the number of the run's newest record after the call.
func (a *Answer) Seq() uint64 {
	if a.State == nil {
		return 0
	}
	return a.State.Seq
}

// TurnRef returns the turn that is open after the call, or nil.
func (a *Answer) TurnRef() *pawlv1.TurnRef {
	if a.State == nil {
		return nil
	}
	return turnToProto(a.State, a.Turn)
}

// Run returns the run after the input.
func (a *Answer) Run(namespace string) *pawlv1.Run {
	return RunToProto(namespace, a.State, AllowedEvents(a.Graph, a.State))
}

// AllowedEvents returns the events that the current state declares, sorted. It returns none if the
// state is terminal or the run has ended.
func AllowedEvents(graph *machine.Graph, s *machine.State) []string {
	node := graph.States[s.Current]
	if node == nil || node.Terminal || s.Status.Terminal() {
		return nil
	}
	events := make([]string, 0, len(node.OnEvent))
	for event := range node.OnEvent {
		events = append(events, event)
	}
	slices.Sort(events)
	return events
}

// TurnViewToProto converts a turn with everything that its executor needs.
func TurnViewToProto(v *runtime.TurnView) *pawlv1.GetTurnResponse {
	run := v.Run
	out := &pawlv1.GetTurnResponse{
		Turn: turnToProto(run, &v.TurnRef), Pack: PackRefToProto(run.PackID, run.PackVersion, run.Digest),
		Prompt: v.TurnRef.Prompt, SystemPrompt: v.System, Messages: messagesToProto(v.Messages),
		AllowedEvents: v.Events, Terminal: len(v.Events) == 0,
		Deadline: TimeToProto(run.Deadline), Seq: run.Seq, VisitSeq: run.VisitSeq,
		Suspended: run.Turn.Suspended, NotBefore: TimeToProto(run.Turn.NotBefore),
	}
	if v.Orchestration == machine.External {
		out.AllowedEvents = nil
	}
	for _, t := range v.Tools {
		out.Tools = append(out.Tools, &pawlv1.ToolSpec{
			Name: t.Name, Description: t.Description, ParametersJson: string(t.Parameters), Agent: t.Agent,
		})
	}
	for _, slot := range v.Slots {
		out.ArtifactSlots = append(out.ArtifactSlots, &pawlv1.ArtifactSlot{
			Name: slot.Name, MediaType: slot.Type, Mode: modeToProto(slot.Mode),
		})
	}
	for i := range v.Steps {
		out.Steps = append(out.Steps, StepViewToProto(v.Run.RunID, &v.Steps[i]))
	}
	return out
}

// StepViewToProto converts a step with its payload and answer.
func StepViewToProto(run string, v *history.StepView) *pawlv1.Step {
	out := stepToProto(run, &v.ToolStep)
	out.PayloadJson, out.ResultJson, out.Error = string(v.Payload), string(v.Result), faultToProto(v.Error)
	out.BodiesOmitted, out.Unknown = v.Omitted, v.Unknown
	withModel(out, v.Request, &v.Recorded)
	return out
}

// OutcomeToProto converts the engine's answer to one step request.
func OutcomeToProto(s *machine.State, a *runtime.StepAnswer, req *machine.StepRequest) *pawlv1.StepOutcome {
	out := &pawlv1.StepOutcome{Key: a.Key, Replayed: a.Replayed, Denial: denialToProto(a.Denial)}
	if a.Step == 0 {
		return out
	}
	out.Step = stepToProto(s.RunID, &machine.ToolStep{Step: a.Step, Key: a.Key, Tool: req.Tool, Status: a.Status, Call: req.Call})
	for i := range s.Steps {
		if s.Steps[i].Step == a.Step {
			out.Step = stepToProto(s.RunID, &s.Steps[i])
		}
	}
	payload := req.Payload
	if a.PayloadSeq != 0 {
		payload = a.Payload
	}
	out.Step.PayloadJson, out.Step.ResultJson, out.Step.Error = string(payload), string(a.Result), faultToProto(a.Error)
	out.Step.BodiesOmitted, out.Step.Unknown = a.Omitted, a.Unknown
	return out
}

// DescribeSlots adds the descriptions of artifacts in the pack to the slots, which are the artifacts that a state may
// write.
func DescribeSlots(p *pack.Pack, state string, slots []*pawlv1.ArtifactSlot) {
	if p.Doc.Workflow == nil || p.Doc.Workflow.States[state] == nil {
		return
	}
	declared := p.Doc.Workflow.States[state].Artifacts
	for _, slot := range slots {
		if a := declared[slot.GetName()]; a != nil {
			slot.Description = a.Description
		}
	}
}

// RemainingToProto converts the remaining budgets.
func RemainingToProto(r *machine.Remaining) *pawlv1.Remaining {
	out := &pawlv1.Remaining{Visits: r.Visits, ToolCalls: r.ToolCalls, Steps: r.Steps, Tokens: r.Tokens, CostMicroUsd: r.CostMicro}
	if r.WallTime != nil {
		out.WallTime = durationpb.New(*r.WallTime)
	}
	return out
}
