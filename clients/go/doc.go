// Package pawl is the Go client of a Pawl sidecar. It starts and controls runs ([Client], [Run]),
// executes their turns and tools ([Worker], [Run.Serve]), and reads errors ([Error]).
//
// The messages are the generated ones of gen/go/pawl/v1. Use the generated stubs over [Client.Conn]
// for calls that have no method here.
//
//	client, err := pawl.NewClient(pawl.Options{})
//	...
//	got, err := client.Run(ctx, &pawlv1.StartRunRequest{Pack: "review", RequestId: "order-17"}, pawl.Serving{
//		Turn: func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
//			if t.Assignment.GetTurn().GetTerminal() {
//				return pawl.Completion{}, nil
//			}
//			result, err := t.Step(ctx, "charge", "charge", `{"amount": 49.9}`)
//			...
//			return pawl.Completion{Event: "Paid"}, nil
//		},
//		Tools: map[string]pawl.ToolFunc{"charge": charge},
//	})
//
// A program that dies continues the run when it starts again with the same request_id: the answers
// of the tools are stored. The sidecar's own executor, the benchmark and the tests use this package.
//
// The package imports gen only. Two rules hold: a worker reports each assignment once per lease, and
// it asks for no more work than it can execute at once.
package pawl
