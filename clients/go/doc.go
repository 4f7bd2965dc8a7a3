// Package pawl is the Go client of a Pawl sidecar: it starts and moves runs ([Client], [Run]),
// executes their turns and tools ([Worker], [Run.Serve]), and reads errors ([Error]).
//
// Messages are those of the contract, in gen/go/pawl/v1. What the client has no method for is
// called by the generated stubs over [Client.Conn].
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
// A program that dies is started again with the same request_id and goes on with the run: what
// the tools answered is on record. The sidecar's own executor, the bench and the tests are
// made of this package.
//
// It knows the contract only and imports gen. Invariant: what a worker was given is reported
// once per lease, and no more is asked for than it can do at once.
package pawl
