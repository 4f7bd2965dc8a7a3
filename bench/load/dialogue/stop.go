package dialogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// stops measures, one run after the other, the time from the call that stops a run until the worker
// that executes its turn receives this.
func stops(ctx context.Context, conn *grpc.ClientConn, job Job) (took []time.Duration, err error) {
	began, ended := make(chan struct{}, 1), make(chan time.Time, 1)
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: conn, ID: "stopped", Packs: []string{job.Pack}, Prompts: map[string]pawl.TurnFunc{
		"*": func(ctx context.Context, _ *pawl.Turn) (pawl.Completion, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- time.Now()
			return pawl.Completion{}, ctx.Err()
		},
	}})
	if err != nil {
		return nil, err
	}
	working, leave := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- w.Run(working) }()
	defer func() {
		leave()
		err = errors.Join(err, <-left)
	}()
	for range job.Stops {
		d, err := stopOne(ctx, conn, job.Pack, began, ended)
		if err != nil {
			return nil, fmt.Errorf("dialogue: stop: %w", err)
		}
		took = append(took, d)
	}
	return took, nil
}

// stopOne starts a run, stops it in its turn and ends it.
func stopOne(ctx context.Context, conn *grpc.ClientConn, pack string, began <-chan struct{}, ended <-chan time.Time) (time.Duration, error) {
	runs := pawlv1.NewRunServiceClient(conn)
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: pack, Execution: pawlv1.Execution_EXECUTION_WORKERS, RequestId: words(12)})
	if err != nil {
		return 0, err
	}
	run := started.GetRun().GetRunId()
	if err := await(ctx, began); err != nil {
		return 0, err
	}
	from := time.Now()
	if _, err := pawlv1.NewControlServiceClient(conn).StopRun(ctx, &pawlv1.StopRunRequest{RunId: run}); err != nil {
		return 0, err
	}
	select {
	case at := <-ended:
		_, err := runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run})
		return at.Sub(from), err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func await(ctx context.Context, what <-chan struct{}) error {
	select {
	case <-what:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
