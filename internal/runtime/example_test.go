package runtime_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

// must ends an example that cannot go on.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A caller starts a run, executes its turn and names the event; the engine says
// where that leads, and refuses what the state does not know.
func ExampleEngine() {
	ctx := context.Background()
	engine, err := services.New(services.Config{Config: runtime.Config{Store: testkit.NewStore(), Clock: testkit.NewClock(), IDs: &testkit.IDs{}}})
	must(err)
	defer engine.Close()
	call := runtime.Call{Principal: runtime.Anonymous()}
	_, err = engine.RegisterPack(ctx, packs.RegisterRequest{Call: call, Document: []byte(loopPack)})
	must(err)
	run, err := engine.StartRun(ctx, runtime.StartRequest{
		Call: call, Pack: "loop", Execution: machine.Caller, Variables: []byte(`{"goal": "ship"}`), RequestID: "order-7",
	})
	must(err)
	emit := runtime.EmitRequest{
		RunRef: runtime.RunRef{Call: call, RunID: run.RunID}, TurnToken: run.Turn.Token, Event: "Ship", EventID: "e-1",
	}
	_, err = engine.EmitEvent(ctx, emit)
	if refused, ok := errors.AsType[*machine.Error](err); ok {
		fmt.Println(refused.Reason, refused.Field, refused.Allowed)
	}
	emit.Event = "Again"
	for range 2 {
		answer, err := engine.EmitEvent(ctx, emit)
		must(err)
		fmt.Println(answer.State.Current, answer.State.TotalVisits, answer.Duplicate)
	}
	// Output:
	// UNKNOWN_EVENT event [Again Ask Finish Share]
	// work 2 false
	// work 2 true
}

// A watch tells the records in order, each once, from any place on.
func ExampleEngine_watch() {
	ctx := context.Background()
	engine, err := services.New(services.Config{Config: runtime.Config{Store: testkit.NewStore(), Clock: testkit.NewClock(), IDs: &testkit.IDs{}}})
	must(err)
	defer engine.Close()
	call := runtime.Call{Principal: runtime.Anonymous()}
	_, err = engine.RegisterPack(ctx, packs.RegisterRequest{Call: call, Document: []byte(loopPack)})
	must(err)
	run, err := engine.StartRun(ctx, runtime.StartRequest{
		Call: call, Pack: "loop", Execution: machine.Caller, Variables: []byte(`{"goal": "ship"}`),
	})
	must(err)
	ref := runtime.RunRef{Call: call, RunID: run.RunID}
	_, err = engine.CancelRun(ctx, runtime.ControlRequest{RunRef: ref, Note: "no longer needed"})
	must(err)
	stream, err := engine.Watch(ctx, streams.Request{Call: call, Filter: streams.Filter{RunID: run.RunID}, Follow: true})
	must(err)
	defer stream.Close()
	for {
		page, err := stream.Next(ctx)
		if errors.Is(err, streams.ErrEnded) {
			return
		}
		must(err)
		for _, row := range page.Records {
			fmt.Printf("%d after %d: %T\n", row.Record.Seq, row.PrevSeq, row.Record.Body)
		}
	}
	// Output:
	// 1 after 0: *machine.Transition
	// 2 after 1: *machine.Ended
}
