package rules_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// A run of two states: the event names no successor, the graph resolves it.
func ExampleStep() {
	g := &machine.Graph{
		Entry: "draft",
		States: map[string]*machine.Node{
			"draft": {Name: "draft", OnEvent: map[string]string{"Ready": "done"}},
			"done":  {Name: "done", Terminal: true},
		},
	}
	var s *machine.State
	for i, c := range []machine.Command{
		machine.Start{RunID: "01J", Execution: machine.Caller},
		machine.EmitEvent{Event: "Ready"},
		machine.CompleteTurn{TurnSeq: 2, Attempt: 1},
	} {
		r, err := rules.Step(g, s, machine.Input{At: int64(i + 1), Principal: "app", Command: c})
		if err != nil {
			fmt.Println(err)
			return
		}
		s = r.State
		fmt.Printf("%d %s in %s\n", s.Seq, s.Status, s.Current)
	}
	// Output:
	// 1 RUNNING in draft
	// 2 RUNNING in done
	// 4 COMPLETED in done
}
