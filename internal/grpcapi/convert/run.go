package convert

import (
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
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
		Compensating: s.Undo != nil,
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

func countsToProto(out *pawlv1.Run, s *machine.State) {
	out.TotalVisits, out.Transitions = int32(s.TotalVisits), int32(s.Transitions)
	out.ToolCalls, out.Reframes = int32(s.ToolCalls), int32(s.Reframes)
	out.Tokens, out.CostMicroUsd, out.EstimatedTokens = s.Tokens, s.CostMicro, s.EstimatedTokens
	out.ReservedTokens, out.ReservedCostMicroUsd = rules.Reserved(s, -1)
	lent := rules.Lent(s)
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

// turnToProto converts an open turn. The caller's reference may contain the turn's token.
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

// ArtifactsToProto converts the artifacts of a run, sorted by name.
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
