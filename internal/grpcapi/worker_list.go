package grpcapi

import (
	"context"
	"errors"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/grpcapi/redact"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ListWorkers implements pawl.v1.WorkerService.
func (s *workerService) ListWorkers(ctx context.Context, in *pawlv1.ListWorkersRequest) (*pawlv1.ListWorkersResponse, error) {
	call := callOf(ctx, in.GetNamespace())
	list, err := s.runs.work.List(call)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListWorkersResponse{TotalWorkers: int32(list.Total)}
	for i := range list.Workers {
		out.Workers = append(out.Workers, workerToProto(&list.Workers[i]))
	}
	hideFailures(ctx, s.runs.redactor, call, out.GetWorkers())
	for i := range list.Ready {
		ready := &list.Ready[i]
		out.Ready = append(out.Ready, &pawlv1.ReadyWork{
			Pack:   convert.PackRefToProto(ready.Class.PackID, ready.Class.PackVersion, ready.Class.Digest),
			Prompt: ready.Class.Prompt, Agent: ready.Class.Agent, Tool: ready.Class.Tool,
			Count: int32(ready.Count), Workers: int32(ready.Workers),
		})
	}
	return out, nil
}

// hideFailures hides the messages of the workers' last failures from callers that may not read them. The rules of each
// run are read once. If the rules of a run cannot be read, for example because the run was deleted, its messages are
// dropped. After an error of the store no more rules are read.
func hideFailures(ctx context.Context, gate redact.Gate, call runtime.Call, workers []*pawlv1.ConnectedWorker) {
	if !redact.Hidden(call) {
		return
	}
	isStoreAway := false
	hides := make(map[string]func(*pawlv1.WorkFailure))
	for _, w := range workers {
		f := w.GetLastFailure()
		if f.GetError().GetMessage() == "" {
			continue
		}
		hide := hides[f.GetRunId()]
		if hide == nil {
			hide = func(f *pawlv1.WorkFailure) { f.Error.Message = "" }
			if !isStoreAway {
				rules, err := gate.RulesFor(ctx, runtime.RunRef{Call: call, RunID: f.GetRunId()})
				refusal, _ := errors.AsType[*machine.Error](err)
				switch {
				case err == nil:
					hide = func(f *pawlv1.WorkFailure) { rules.Apply(f) }
				case refusal == nil || refusal.Code != machine.CodeNotFound:
					isStoreAway = true
				}
			}
			hides[f.GetRunId()] = hide
		}
		hide(f)
	}
}

// workerToProto converts a connected worker, with its held work and its last failure.
func workerToProto(w *dispatch.WorkerView) *pawlv1.ConnectedWorker {
	out := &pawlv1.ConnectedWorker{
		WorkerId: w.ID, Principal: w.Principal, Client: w.Client,
		Packs: w.Offer.Packs, Prompts: w.Offer.Prompts, Agents: w.Offer.Agents, Tools: w.Offer.Tools,
		TurnCapacity: int32(w.Offer.Turns), StepCapacity: int32(w.Offer.Steps),
		HeldTurns: int32(w.HeldTurns), HeldSteps: int32(w.HeldSteps),
		ConnectedAt: convert.TimeToProto(w.ConnectedAt), SeenAt: convert.TimeToProto(w.SeenAt), Draining: w.Draining, ServedRuns: int32(w.Serving),
		TurnCounts: countsToProto(w.TurnCounts), StepCounts: countsToProto(w.StepCounts), FailingMoreThanPeers: w.FailingMore,
	}
	if f := w.LastFailure; f != nil {
		out.LastFailure = &pawlv1.WorkFailure{
			At: convert.TimeToProto(f.At), RunId: f.RunID, Pack: convert.PackRefToProto(f.Class.PackID, f.Class.PackVersion, f.Class.Digest),
			Prompt: f.Class.Prompt, Agent: f.Class.Agent, Tool: f.Class.Tool, Attempt: int32(f.Attempt),
			Lost: f.Cause != dispatch.FailureAnswered, Error: &pawlv1.Fault{Code: f.Error.Code, Message: f.Error.Message},
		}
	}
	for i := range w.Turns {
		t := &w.Turns[i]
		out.Turns = append(out.Turns, &pawlv1.HeldWork{
			RunId: t.RunID, TurnSeq: t.Turn, Attempt: int32(t.Attempt), Since: convert.TimeToProto(t.Since), Deadline: convert.TimeToProto(t.Deadline),
		})
	}
	for i := range w.Steps {
		t := &w.Steps[i]
		out.Steps = append(out.Steps, &pawlv1.HeldWork{RunId: t.RunID, Step: t.Step, Tool: t.Tool, Attempt: int32(t.Attempt)})
	}
	return out
}

func countsToProto(c dispatch.WorkCounts) *pawlv1.WorkCounts {
	return &pawlv1.WorkCounts{Taken: c.Taken, Failed: c.Failed, Lost: c.Lost}
}
