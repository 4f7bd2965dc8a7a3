package pawl_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/house"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// exampleSidecar is a sidecar in this process, with the pack of the examples.
func exampleSidecar(ctx context.Context) *app.Local {
	local, err := app.StartLocal(config.Default(), house.SystemClock{})
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
