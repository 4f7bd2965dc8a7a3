package godriver

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func (d *driver) register(ctx context.Context, a args) (any, error) {
	d.mu.Lock()
	packs := pawlv1.NewPackServiceClient(d.conn)
	d.mu.Unlock()
	got, err := retry(ctx, packs.RegisterPack, &pawlv1.RegisterPackRequest{
		Content: []byte(a.Content), Filename: a.Filename, MakeDefault: new(true),
	})
	if err != nil {
		return nil, err
	}
	return canonical(got.GetPack()), nil
}

// startOf is the request by which a run is started.
func startOf(a args) *pawlv1.StartRunRequest {
	req := &pawlv1.StartRunRequest{
		Pack: a.Pack, Execution: pawlv1.Execution_EXECUTION_CALLER, Labels: a.Labels, RequestId: idOrNew(a.ID),
		Input: partsOf(a.Input), MaxSteps: a.MaxSteps, Conversation: a.Conversation,
	}
	if a.Execution == "workers" {
		req.Execution = pawlv1.Execution_EXECUTION_WORKERS
	}
	if a.Agent != "" {
		req.Entry = &pawlv1.StartRunRequest_Agent{Agent: a.Agent}
	}
	if a.State != "" {
		req.Entry = &pawlv1.StartRunRequest_State{State: a.State}
	}
	if a.Variables != nil {
		text, _ := json.Marshal(a.Variables) // They came as JSON.
		req.VariablesJson = string(text)
	}
	return req
}

func (d *driver) start(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().StartRun, startOf(a))
	if err != nil {
		return nil, err
	}
	alias := d.name(a.As, got.GetRun().GetRunId())
	return d.runInfo(ctx, got.GetRun().GetRunId(), 0, map[string]any{"alias": alias})
}

func (d *driver) info(ctx context.Context, a args) (any, error) {
	return d.runInfo(ctx, d.runID(a), a.AtSeq, nil)
}

func (d *driver) runInfo(ctx context.Context, id string, at uint64, more map[string]any) (any, error) {
	got, err := retry(ctx, d.client().GetRun, &pawlv1.GetRunRequest{RunId: id, AtSeq: at})
	if err != nil {
		return nil, err
	}
	return joined(canonFields(got.GetRun().ProtoReflect()), more), nil
}

func joined(into, more map[string]any) map[string]any {
	maps.Copy(into, more)
	return into
}

func (d *driver) artifacts(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().GetRun, &pawlv1.GetRunRequest{RunId: d.runID(a), AtSeq: a.AtSeq, IncludeArtifacts: true})
	values := map[string]any{}
	for _, one := range got.GetArtifacts() {
		values[one.GetHead().GetName()] = valueOf(one.GetValue())
	}
	return values, err
}

func (d *driver) turn(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().GetTurn, &pawlv1.GetTurnRequest{RunId: d.runID(a)})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.turns[named(a.As, current)] = got
	d.mu.Unlock()
	return canonical(got), nil
}

func (d *driver) emit(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().EmitEvent, &pawlv1.EmitEventRequest{
		RunId: d.runID(a), Event: a.Event, Artifacts: writesOf(a.Artifacts, d.slots(a)), EventId: idOrNew(a.ID),
		ExpectedSeq: a.Expected, TurnToken: d.token(a),
	})
	return canonical(got), err
}

// slots are the declared artifacts, where a turn was fetched that tells them.
func (d *driver) slots(a args) []*pawlv1.ArtifactSlot { return d.turnOf(a).GetArtifactSlots() }

func (d *driver) set(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().SetArtifacts, &pawlv1.SetArtifactsRequest{
		RunId: d.runID(a), Artifacts: writesOf(a.Artifacts, d.slots(a)), WriteId: idOrNew(a.ID),
		ExpectedSeq: a.Expected, TurnToken: d.token(a),
	})
	return canonical(got), err
}

func (d *driver) input(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().SendInput, &pawlv1.SendInputRequest{
		RunId: d.runID(a), Parts: partsOf(a.Input), MessageId: idOrNew(a.ID), ExpectedSeq: a.Expected,
	})
	return canonical(got), err
}

func (d *driver) complete(ctx context.Context, a args) (any, error) {
	turn := d.turnOf(a)
	got, err := retry(ctx, d.client().CompleteTurn, completion(turn.GetTurn(), a.reply, turn.GetArtifactSlots(), a.ID))
	return canonical(got), err
}

func completion(turn *pawlv1.TurnRef, r reply, slots []*pawlv1.ArtifactSlot, id string) *pawlv1.CompleteTurnRequest {
	return &pawlv1.CompleteTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Event: r.Event, Artifacts: writesOf(r.Artifacts, slots), Output: partsOf(r.Output),
		Messages: messagesOf(r.Messages), Usage: r.Usage.wire(), RequestId: idOrNew(id), ConversationThroughStep: r.ConversationThroughStep,
	}
}

func (d *driver) fail(ctx context.Context, a args) (any, error) {
	turn := d.turnOf(a).GetTurn()
	got, err := retry(ctx, d.client().FailTurn, &pawlv1.FailTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Error: &pawlv1.Fault{Code: a.Code, Message: a.Message}, Retryable: !a.Final, Usage: a.Usage.wire(), RequestId: idOrNew(a.ID),
	})
	return canonical(got), err
}

func (d *driver) suspend(ctx context.Context, a args) (any, error) {
	turn := d.turnOf(a).GetTurn()
	got, err := retry(ctx, d.client().SuspendTurn, &pawlv1.SuspendTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), RequestId: idOrNew(a.ID),
	})
	return canonical(got), err
}

func (d *driver) requestSteps(ctx context.Context, a args) (any, error) {
	turn := d.turnOf(a).GetTurn()
	got, err := retry(ctx, d.client().RequestStep, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: callsOf(a.Calls), RequestId: idOrNew(a.ID),
	})
	return canonical(got), err
}

func (d *driver) resolve(ctx context.Context, a args) (any, error) {
	req := &pawlv1.ResolveStepRequest{RunId: d.runID(a), Step: a.Step, Tool: a.Tool, Attempt: a.Attempt, TurnToken: d.token(a)}
	if a.Error != nil {
		req.Answer, req.NonRetryable, req.Unknown = &pawlv1.ResolveStepRequest_Error{Error: a.Error.wire()}, a.Final, a.Error.Unknown
		if a.RetryAfter > 0 {
			req.RetryAfter = durationpb.New(time.Duration(a.RetryAfter * float64(time.Second)))
		}
	} else {
		req.Answer = &pawlv1.ResolveStepRequest_ResultJson{ResultJson: string(a.Result)}
	}
	got, err := retry(ctx, d.client().ResolveStep, req)
	return canonical(got), err
}

func (d *driver) pause(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().PauseRun, &pawlv1.PauseRunRequest{RunId: d.runID(a), Note: a.Note, RequestId: idOrNew(a.ID)})
	return canonical(got), err
}

func (d *driver) resume(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().ResumeRun, &pawlv1.ResumeRunRequest{RunId: d.runID(a), Note: a.Note, RequestId: idOrNew(a.ID)})
	return canonical(got), err
}

func (d *driver) cancel(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().CancelRun, &pawlv1.CancelRunRequest{RunId: d.runID(a), Note: a.Note, RequestId: idOrNew(a.ID)})
	return canonical(got), err
}

func (d *driver) wait(ctx context.Context, a args) (any, error) {
	if a.Seconds == 0 {
		a.Seconds = 45
	}
	until := pawlv1.WaitUntil_WAIT_UNTIL_TERMINAL
	if a.Until == "WAITING" {
		until = pawlv1.WaitUntil_WAIT_UNTIL_WAITING
	}
	got, err := retry(ctx, d.client().WaitRun, &pawlv1.WaitRunRequest{
		RunId: d.runID(a), Until: until, Timeout: durationpb.New(time.Duration(a.Seconds * float64(time.Second))),
	})
	if err != nil {
		return nil, err
	}
	return joined(canonFields(got.GetRun().ProtoReflect()), map[string]any{"timed_out": got.GetTimedOut()}), nil
}

func (d *driver) records(ctx context.Context, a args) (any, error) {
	records := []any{}
	for token := ""; ; {
		page, err := retry(ctx, d.client().ListTransitions, &pawlv1.ListTransitionsRequest{
			RunId: d.runID(a), Kinds: kindsOf(a.Kinds), AfterSeq: a.AfterSeq, PageToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, record := range page.GetRecords() {
			records = append(records, canonical(record))
		}
		if token = page.GetNextPageToken(); token == "" {
			return map[string]any{"records": records}, nil
		}
	}
}
