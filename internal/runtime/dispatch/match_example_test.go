package dispatch_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// printer tells who is given what.
type printer struct{}

func (printer) Assign(worker uint64, work machine.Work) {
	fmt.Printf("worker %d: turn of %s\n", worker, work.RunID)
}

// Work waits until a worker that serves it has a credit; a run goes back to the
// worker that had it last.
func ExampleMatcher() {
	m := dispatch.NewMatcher(printer{})
	turn := func(run string, last uint64) machine.Work {
		return machine.Work{RunID: run, Last: last, WorkClass: machine.WorkClass{Kind: machine.TurnWork, Prompt: "coder"}}
	}
	m.Add(turn("run-a", 0))
	m.AddWorker(1, machine.WorkOffer{Prompts: []string{"*"}, Turns: 2}, 0, 0)
	fmt.Println("waiting:", m.Waiting())
	m.Credit(1, 2, 0)
	m.AddWorker(2, machine.WorkOffer{Prompts: []string{"coder"}, Turns: 2}, 0, 0)
	m.Credit(2, 2, 0)
	m.Add(turn("run-b", 0))
	m.Done(1, machine.TurnWork)
	m.Add(turn("run-a", 1))
	fmt.Println("waiting:", m.Waiting())
	// Output:
	// waiting: 1
	// worker 1: turn of run-a
	// worker 2: turn of run-b
	// worker 1: turn of run-a
	// waiting: 0
}
