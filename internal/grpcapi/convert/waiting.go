package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/waiting"
)

// WaitingToProto converts what a run waits for. It returns nil if the run waits for nothing.
func WaitingToProto(r *waiting.Reason) *pawlv1.Waiting {
	if r.Kind == waiting.Nothing {
		return nil
	}
	out := &pawlv1.Waiting{
		Kind: pawlv1.WaitingKind(r.Kind), Sentence: r.Sentence(), Since: TimeToProto(r.Since), Due: TimeToProto(r.Due),
		Step: r.Step, Tool: r.Tool, Model: r.Model, Prompt: r.Prompt, Attempt: int32(r.Attempt),
		WorkerId: r.Held.Worker, SeenAt: TimeToProto(r.Held.Seen), OutputAt: TimeToProto(r.Held.Output),
		ConnectedWorkers: int32(r.Connected), Events: r.Events, Principal: r.By, NotStarter: r.NotStarter, TaskId: r.TaskID,
	}
	for _, u := range r.Unfit {
		out.Workers = append(out.Workers, &pawlv1.UnfitWorker{WorkerId: u.Worker, Cause: pawlv1.UnfitCause(u.Cause)})
	}
	if r.Kind == waiting.Limit {
		out.Limit = LimitWaitListToProto([]ratelimit.Wait{r.Limit})[0]
	}
	return out
}
