package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
)

// ListWorkers implements pawl.v1.WorkerService.
func (s *workerService) ListWorkers(ctx context.Context, in *pawlv1.ListWorkersRequest) (*pawlv1.ListWorkersResponse, error) {
	list, err := s.runs.work.List(callOf(ctx, in.GetNamespace()))
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListWorkersResponse{TotalWorkers: int32(list.Total)}
	for i := range list.Workers {
		out.Workers = append(out.Workers, workerToProto(&list.Workers[i]))
	}
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

func workerToProto(w *dispatch.WorkerView) *pawlv1.ConnectedWorker {
	out := &pawlv1.ConnectedWorker{
		WorkerId: w.ID, Principal: w.Principal, Client: w.Client,
		Packs: w.Offer.Packs, Prompts: w.Offer.Prompts, Agents: w.Offer.Agents, Tools: w.Offer.Tools,
		TurnCapacity: int32(w.Offer.Turns), StepCapacity: int32(w.Offer.Steps),
		HeldTurns: int32(w.HeldTurns), HeldSteps: int32(w.HeldSteps),
		ConnectedAt: convert.TimeToProto(w.ConnectedAt), SeenAt: convert.TimeToProto(w.SeenAt), Draining: w.Draining, ServedRuns: int32(w.Serving),
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
