package pawl_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/server"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// exampleSidecar is a sidecar in this process, with the pack of the examples.
func exampleSidecar(ctx context.Context) *server.Local {
	local, err := server.StartLocal(config.Default(), runtime.SystemClock{})
	check(err)
	content, err := os.ReadFile("../../testdata/packs/rfc0009-3-self-correcting.json")
	check(err)
	_, err = pawlv1.NewPackServiceClient(local.Conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: content})
	check(err)
	return local
}

// A worker executes the turns of a run, each with the function of its prompt,
// until the run has ended. This one never gets it right: after its third visit the
// guard leads elsewhere.
func ExampleWorker() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	local := exampleSidecar(ctx)
	defer local.Close()
	runs := pawlv1.NewRunServiceClient(local.Conn)
	run, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	check(err)

	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: local.Conn, ID: "w", Prompts: map[string]pawl.TurnFunc{
		"*": func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
			turn := t.Assignment.GetTurn()
			fmt.Println(turn.GetTurn().GetState(), turn.GetTurn().GetVisit())
			if turn.GetTerminal() {
				return pawl.Completion{}, nil
			}
			return pawl.Completion{Event: "Error"}, nil
		},
	}})
	check(err)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	got, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run.GetRun().GetRunId(), Timeout: durationpb.New(20 * time.Second)})
	check(err)
	stop()
	fmt.Println(got.GetRun().GetStatus(), got.GetRun().GetTotalVisits(), <-ended)
	// Output:
	// work 1
	// work 2
	// work 3
	// give_up 1
	// RUN_STATUS_COMPLETED 4 <nil>
}

// A client executes a run that it starts. With the same request_id it goes on with it, also in
// another process.
func ExampleClient_Run() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	local := exampleSidecar(ctx)
	defer local.Close()
	client, err := pawl.NewClient(pawl.Options{Conn: local.Conn}) // pawl.Options{}: the sidecar at PAWL_ADDR
	check(err)
	defer client.Close()

	request := &pawlv1.StartRunRequest{Pack: "self-correcting", RequestId: "order-17"}
	got, err := client.Run(ctx, request, pawl.Serving{Turn: func(_ context.Context, t *pawl.Turn) (pawl.Completion, error) {
		turn := t.Assignment.GetTurn()
		switch {
		case turn.GetTerminal():
			return pawl.Completion{}, nil
		case turn.GetTurn().GetVisit() == 1:
			return pawl.Completion{Event: "Error"}, nil
		}
		return pawl.Completion{Event: "Success"}, nil
	}})
	check(err)
	fmt.Println(got.GetRun().GetStatus(), got.GetRun().GetTotalVisits())
	for record, err := range client.Attach(got.GetRun().GetRunId()).Transitions(ctx, 0, pawlv1.RecordKind_RECORD_KIND_TRANSITION) {
		check(err)
		fmt.Println(record.GetTransition().GetEvent(), "->", record.GetTransition().GetToState())
	}
	// Output:
	// RUN_STATUS_COMPLETED 3
	//  -> work
	// Error -> work
	// Success -> complete
}
