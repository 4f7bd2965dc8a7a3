package load

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// agentChild is a worker that repeats the message that it received. Its argument is the address of
// the sidecar.
func agentChild(ctx context.Context, spec ChildSpec, _ *wire) error {
	if len(spec.Args) != 1 {
		return fmt.Errorf("agent: %d arguments; want a target", len(spec.Args))
	}
	conns, closeAll, err := dial(spec.Args[0], 1)
	if err != nil {
		return err
	}
	defer closeAll()
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: conns[0], ID: "bench-agent", Turns: workerRuns, Grace: time.Second,
		Agents: map[string]pawl.TurnFunc{"echo": func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
			said := t.Assignment.GetTurn().GetMessages()
			return pawl.Completion{Output: []*pawlv1.Part{said[len(said)-1].GetParts()[0]}}, nil
		}},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// subscribeJob asks for a subscription to each task.
type subscribeJob struct {
	Target string   `json:"target"`
	Tasks  []string `json:"tasks"`
}

// subscribersChild subscribes to tasks over a few connections. It reports when each subscription
// has received its task, and keeps the subscriptions until it ends.
func subscribersChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job subscribeJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		return ready{Ready: true, GRPC: job.Target}, subscribeAll(ctx, job)
	})
}

func subscribeAll(ctx context.Context, job subscribeJob) error {
	const connections = 8
	conns, closeAll, err := dial(job.Target, connections)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, closeAll)
	for i, task := range job.Tasks {
		stream, err := a2apb.NewA2AServiceClient(conns[i%connections]).SubscribeToTask(versionContext(ctx),
			&a2apb.SubscribeToTaskRequest{Tenant: agentTenant, Id: task})
		if err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	return nil
}
