package codec

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// The functions below return the part of a stored value that stays readable after the values of its run
// were erased. They list the fields that remain. Every other field is erased, including fields that are
// added later. A type without values of the run is returned whole; TestWhatIsLeft requires that no text
// or byte string of a run remains.

// leftOfInput returns the part of an input that remains after an erasure.
func leftOfInput(in *machine.Input) machine.Input {
	return machine.Input{
		At: in.At, Principal: in.Principal, ID: in.ID, Semantics: in.Semantics, Billed: in.Billed, Command: leftOfCommand(in.Command),
		Evals: leftOfResults(in.Evals),
	}
}

// leftOfCommand returns the fields of a command that remain after an erasure of the run's values.
func leftOfCommand(c machine.Command) machine.Command {
	switch c := c.(type) {
	case machine.Start:
		return machine.Start{
			Namespace: c.Namespace, RunID: c.RunID, EntryOverride: c.EntryOverride, Execution: c.Execution, Conversation: c.Conversation, Labels: c.Labels,
			Limits: c.Limits, Parent: c.Parent, Depth: c.Depth, Task: c.Task, MaxWallTime: c.MaxWallTime, MaxSteps: c.MaxSteps, Lease: c.Lease,
			Policy: c.Policy, Payer: c.Payer,
		}
	case machine.Fork:
		return machine.Fork{
			Namespace: c.Namespace, RunID: c.RunID, EntryOverride: c.EntryOverride, Execution: c.Execution, Labels: c.Labels,
			Limits: c.Limits, MaxWallTime: c.MaxWallTime, MaxSteps: c.MaxSteps, Seq: c.Seq, ReuseSteps: c.ReuseSteps,
			From: leftOfState(c.From),
		}
	case machine.EmitEvent:
		return machine.EmitEvent{
			Event: c.Event, ExpectedSeq: c.ExpectedSeq, Outside: c.Outside, Assigned: c.Assigned, Violation: leftOfViolation(c.Violation),
		}
	case machine.SendInput:
		return machine.SendInput{ExpectedSeq: c.ExpectedSeq, Step: c.Step, Scopes: c.Scopes}
	case machine.SetArtifacts:
		return machine.SetArtifacts{ExpectedSeq: c.ExpectedSeq}
	case machine.FireTimer, machine.LoseTurn, machine.LoseStep:
		return c
	case machine.Pause:
		return machine.Pause{}
	case machine.Resume:
		return machine.Resume{}
	case machine.Cancel:
		return machine.Cancel{}
	case machine.Steer:
		return machine.Steer{When: c.When}
	case machine.Stop:
		return machine.Stop{}
	}
	return leftOfWork(c)
}

// leftOfWork continues leftOfCommand with the commands of executors and the commands about steps and budgets.
func leftOfWork(c machine.Command) machine.Command {
	switch c := c.(type) {
	case machine.CompleteTurn:
		return machine.CompleteTurn{
			TurnSeq: c.TurnSeq, Attempt: c.Attempt, Usage: figures(c.Usage), Event: c.Event, ExpectedSeq: c.ExpectedSeq,
			Outside: c.Outside, Assigned: c.Assigned, Await: c.Await, Reply: c.Reply, ConversationThroughStep: c.ConversationThroughStep,
			Violation: leftOfViolation(c.Violation),
		}
	case machine.FailTurn:
		return machine.FailTurn{
			TurnSeq: c.TurnSeq, Attempt: c.Attempt, Retryable: c.Retryable, Usage: figures(c.Usage), Assigned: c.Assigned, Reject: c.Reject, Rejected: c.Rejected,
		}
	case machine.SuspendTurn:
		return c
	case machine.RequestSteps:
		return machine.RequestSteps{TurnSeq: c.TurnSeq, Attempt: c.Attempt, First: c.First, Assigned: c.Assigned}
	case machine.ResolveStep:
		return machine.ResolveStep{
			Step: c.Step, Tool: c.Tool, Attempt: c.Attempt, OK: c.OK, Worker: c.Worker, Final: c.Final, Usage: figures(c.Usage), Unknown: c.Unknown, Metered: c.Metered,
		}
	case machine.RequestModel:
		return machine.RequestModel{
			TurnSeq: c.TurnSeq, Attempt: c.Attempt, Round: c.Round, IncludeRequired: c.IncludeRequired, Bound: figures(c.Bound), Assigned: c.Assigned,
		}
	case machine.AnswerModel:
		return machine.AnswerModel{
			TurnSeq: c.TurnSeq, TurnAttempt: c.TurnAttempt, Step: c.Step, Attempt: c.Attempt, Final: c.Final, RetryAfter: c.RetryAfter,
			Usage: figures(c.Usage), Assigned: c.Assigned, Violation: leftOfViolation(c.Violation),
		}
	case machine.UpdateModelCall:
		return machine.UpdateModelCall{TurnSeq: c.TurnSeq, TurnAttempt: c.TurnAttempt, Step: c.Step, Attempt: c.Attempt, Assigned: c.Assigned}
	case machine.RaiseBudget:
		return machine.RaiseBudget{To: c.To}
	case machine.DecideStep:
		return machine.DecideStep{Step: c.Step, Verdict: c.Verdict, Expires: c.Expires}
	case machine.WriteOutput:
		return machine.WriteOutput{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Assigned: c.Assigned}
	case machine.NoteDelegation:
		return machine.NoteDelegation{Step: c.Step, Attempt: c.Attempt}
	}
	return nil
}

func leftOfRecords(records []machine.Record) []machine.Record {
	out := make([]machine.Record, len(records))
	for i, r := range records {
		out[i] = machine.Record{Seq: r.Seq, At: r.At, Principal: r.Principal, Body: leftOfBody(r.Body)}
	}
	return out
}

// leftOfBody returns the fields of a record's body that remain after an erasure of the run's values.
func leftOfBody(b machine.Body) machine.Body {
	switch b := b.(type) {
	case *machine.Transition:
		return &machine.Transition{
			From: b.From, Event: b.Event, To: b.To, Intended: b.Intended, Redirects: b.Redirects, Visit: b.Visit, Total: b.Total, Cause: b.Cause,
			Uncompensated: uncompensatedOf(b.Uncompensated), AwaitsInput: b.AwaitsInput, Conversation: b.Conversation,
		}
	case *machine.Ended:
		return &machine.Ended{Status: b.Status, Reason: b.Reason, Event: b.Event, Intended: b.Intended, Redirects: b.Redirects, Uncompensated: uncompensatedOf(b.Uncompensated)}
	case *machine.CompensationStarted:
		return &machine.CompensationStarted{
			Status: b.Status, Reason: b.Reason, Event: b.Event, Intended: b.Intended, Redirects: b.Redirects, Effects: b.Effects, Pending: b.Pending,
		}
	case *machine.StepOutcomeUnknown:
		return &machine.StepOutcomeUnknown{Step: b.Step, Tool: b.Tool, Attempt: b.Attempt, Worker: b.Worker, By: b.By, Kind: b.Kind}
	case *machine.InputReceived:
		return &machine.InputReceived{MessageID: b.MessageID, Queued: b.Queued, Step: b.Step, Scopes: b.Scopes}
	case *machine.Origin:
		return &machine.Origin{RunID: b.RunID, Seq: b.Seq, State: leftOfState(b.State)}
	case *machine.ArtifactsSet:
		return &machine.ArtifactsSet{}
	case *machine.Paused:
		return &machine.Paused{}
	case *machine.Resumed:
		return &machine.Resumed{}
	case *machine.TurnOpened, *machine.TurnAssigned, *machine.TurnAbandoned, *machine.TurnSuspended, *machine.TurnReady,
		*machine.NoChange:
		return b
	case *machine.StepCancelled:
		return &machine.StepCancelled{Step: b.Step, Tool: b.Tool, Why: b.Why, Kind: b.Kind, Usage: figures(b.Usage)}
	}
	return leftOfReport(b)
}

// leftOfReport continues leftOfBody with the records about turns, steps, output and budgets.
func leftOfReport(b machine.Body) machine.Body {
	switch b := b.(type) {
	case *machine.TurnCompleted:
		return &machine.TurnCompleted{TurnSeq: b.TurnSeq, Attempt: b.Attempt, Usage: figures(b.Usage), Event: b.Event, Await: b.Await, Reply: b.Reply, ConversationThrough: b.ConversationThrough}
	case *machine.TurnFailed:
		return &machine.TurnFailed{
			TurnSeq: b.TurnSeq, Attempt: b.Attempt, Retryable: b.Retryable, Next: b.Next, NotBefore: b.NotBefore, Usage: figures(b.Usage), Rejected: b.Rejected,
			Violation: leftOfViolation(b.Violation),
		}
	case *machine.StepRequested:
		return &machine.StepRequested{
			Step: b.Step, Tool: b.Tool, TurnSeq: b.TurnSeq, Attempt: b.Attempt, Reframe: b.Reframe, Deadline: b.Deadline, Delegation: b.Delegation,
			Kind: b.Kind, Bound: figures(b.Bound), Changed: b.Changed, Call: b.Call, About: b.About,
			Policy: b.Policy, ByCaller: b.ByCaller, Local: b.Local, Repeatable: b.Repeatable,
		}
	case *machine.StepResolved:
		return &machine.StepResolved{
			Step: b.Step, Tool: b.Tool, Attempt: b.Attempt, OK: b.OK, Unknown: b.Unknown, Next: b.Next, Deadline: b.Deadline,
			Worker: b.Worker, Usage: figures(b.Usage), Kind: b.Kind, NotBefore: b.NotBefore,
		}
	case *machine.StepRejected:
		return &machine.StepRejected{Tool: b.Tool, TurnSeq: b.TurnSeq, Kind: b.Kind}
	case *machine.ModelUpdated:
		return &machine.ModelUpdated{Step: b.Step, Attempt: b.Attempt, Usage: figures(b.Usage), Changed: b.Changed}
	case *machine.StepDecided:
		return &machine.StepDecided{Step: b.Step, Tool: b.Tool, Verdict: b.Verdict, Expires: b.Expires, Deadline: b.Deadline}
	case *machine.BudgetRaised:
		return &machine.BudgetRaised{From: b.From, To: b.To}
	case *machine.OutputWritten:
		return &machine.OutputWritten{TurnSeq: b.TurnSeq, Attempt: b.Attempt}
	case *machine.Steered:
		return &machine.Steered{When: b.When}
	case *machine.Stopped:
		return &machine.Stopped{TurnSeq: b.TurnSeq, Attempt: b.Attempt, ConversationThrough: b.ConversationThrough, Calls: b.Calls}
	case *machine.NoticeAdded:
		return &machine.NoticeAdded{}
	case *machine.Evaluated:
		return &machine.Evaluated{Results: leftOfResults(b.Results)}
	case *machine.StepDelegated:
		return &machine.StepDelegated{Step: b.Step, Tool: b.Tool, Attempt: b.Attempt}
	}
	return nil
}

// leftOfState returns the part of a run's state that remains after an erasure. Lists and counts of runs
// need this part.
func leftOfState(s *machine.State) *machine.State {
	if s == nil {
		return nil
	}
	return &machine.State{
		Namespace: s.Namespace, RunID: s.RunID, Digest: s.Digest, PackID: s.PackID, PackVersion: s.PackVersion,
		Entry: s.Entry, Agent: s.Agent, EntryOverride: s.EntryOverride, Execution: s.Execution, Conversation: s.Conversation,
		Labels: s.Labels, Limits: s.Limits, Parent: s.Parent, Task: s.Task, Depth: s.Depth,
		Seq: s.Seq, PrevHash: s.PrevHash, CreatedAt: s.CreatedAt, At: s.At,
		Status: s.Status, Reason: s.Reason, Paused: s.Paused, Awaiting: s.Awaiting, StatusAt: s.StatusAt, TurnAwaiting: s.TurnAwaiting,
		Current: s.Current, VisitSeq: s.VisitSeq, Visits: s.Visits, Edges: s.Edges, TotalVisits: s.TotalVisits,
		Transitions: s.Transitions, ToolCalls: s.ToolCalls, Called: s.Called, Reframes: s.Reframes, Tokens: s.Tokens, CostMicro: s.CostMicro, EstimatedTokens: s.EstimatedTokens,
		Deadline: s.Deadline, WallLeft: s.WallLeft, StateTimeoutAt: s.StateTimeoutAt, MaxSteps: s.MaxSteps,
		LastStep: s.LastStep, ModelSteps: s.ModelSteps, ArtifactBytes: s.ArtifactBytes, MessageBytes: s.MessageBytes,
		Forked: s.Forked, Account: s.Account, Charges: s.Charges, Erasable: s.Erasable, Imported: s.Imported,
		Policy: s.Policy, Payer: s.Payer, Apart: s.Apart,
	}
}

// figures returns the part of a usage that remains after an erasure: the numbers, but not the model's
// name.
func figures(u machine.Usage) machine.Usage {
	u.Model = ""
	return u
}

// uncompensatedOf returns the uncompensated effects with their error codes removed.
func uncompensatedOf(list []machine.UncompensatedEffect) []machine.UncompensatedEffect {
	var out []machine.UncompensatedEffect
	for _, s := range list {
		out = append(out, machine.UncompensatedEffect{Step: s.Step, Tool: s.Tool, By: s.By})
	}
	return out
}

// leftOfResults returns eval results without their texts, which may quote the erased output.
func leftOfResults(results []machine.EvalResult) []machine.EvalResult {
	var out []machine.EvalResult
	for _, r := range results {
		r.Explanation, r.Error = "", ""
		out = append(out, r)
	}
	return out
}

// leftOfViolation returns the violated validator without the reason, which may quote the erased text.
func leftOfViolation(v *machine.Violation) *machine.Violation {
	if v == nil {
		return nil
	}
	return &machine.Violation{ID: v.ID, Type: v.Type}
}
