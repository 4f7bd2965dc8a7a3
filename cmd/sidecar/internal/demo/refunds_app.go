package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// AppOptions are the settings of the app of the refund demo.
type AppOptions struct {
	// Addr is the address of the sidecar.
	Addr string
	// Ledger is the path of the ledger file.
	Ledger string
	// HangAt is the number of an order. The app makes the payment of this order, writes the line [Hanging] to Out and
	// never returns from the tool. Default: "", no order.
	HangAt string
	// Out receives the line [Hanging] from a tool that hangs.
	Out io.Writer
}

// Hanging is the line that the app prints when it hangs in a tool, after the payment and before the answer.
const Hanging = "hanging"

// refundRequest is the request_id of the only run of the demo. Each start of the app continues this run.
const refundRequest = "demo"

// refunds are the payments that the recorded model makes, one for each visit. The model never stops by itself.
var refunds = []Payment{
	{Order: "17", Amount: 20}, {Order: "18", Amount: 35.5}, {Order: "19", Amount: 150},
	{Order: "20", Amount: 12}, {Order: "21", Amount: 80}, {Order: "22", Amount: 15},
	{Order: "23", Amount: 44}, {Order: "24", Amount: 9}, {Order: "25", Amount: 61}, {Order: "26", Amount: 5},
}

// RunApp is the app of the refund demo, written as a team would write it. It executes the prompts and tools of one
// run until the run ends. After a crash a new process continues, because all data is in the run's journal.
func RunApp(ctx context.Context, o AppOptions) error {
	client, err := pawl.NewClient(pawl.Options{Addr: o.Addr})
	if err != nil {
		return err
	}
	defer client.Close()
	ledger := Ledger{Path: o.Ledger}
	_, err = client.Run(ctx, refundStart(), pawl.Serving{
		Turn: playModel,
		Tools: map[string]pawl.ToolFunc{
			"pay": func(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
				p := Payment{Key: s.IdempotencyKey()}
				if err := json.Unmarshal([]byte(s.Assignment.GetPayloadJson()), &p); err != nil {
					return nil, err
				}
				if err := ledger.Pay(p); err != nil {
					return nil, err
				}
				if p.Order == o.HangAt {
					_, err := fmt.Fprintln(o.Out, Hanging)
					<-ctx.Done()
					return nil, errors.Join(err, ctx.Err())
				}
				return json.Marshal(p)
			},
			"find_payment": func(_ context.Context, s *pawl.Step) (json.RawMessage, error) {
				var call struct {
					Key string `json:"idempotency_key"`
				}
				if err := json.Unmarshal([]byte(s.Assignment.GetPayloadJson()), &call); err != nil {
					return nil, err
				}
				p, found, err := ledger.Find(call.Key)
				if err != nil {
					return nil, err
				}
				if !found {
					return json.Marshal(map[string]any{"happened": false})
				}
				return json.Marshal(map[string]any{"happened": true, "result": p})
			},
		},
	})
	return err
}

// refundStart is the request that starts the run, the same in each process.
func refundStart() *pawlv1.StartRunRequest {
	return &pawlv1.StartRunRequest{Pack: "refund-desk", RequestId: refundRequest, Execution: pawlv1.Execution_EXECUTION_CALLER}
}

// playModel answers a turn in the place of a model. It pays one refund in each visit and ignores the result of the
// previous one. In a terminal state it only says goodbye. A denied refund is no error.
func playModel(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	turn := t.Assignment.GetTurn()
	if turn.GetTerminal() {
		return pawl.Completion{Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "No more refunds today."}}}}, nil
	}
	p := refunds[int(turn.GetTurn().GetVisit()-1)%len(refunds)]
	payload, err := json.Marshal(map[string]any{"order": p.Order, "amount": p.Amount})
	if err != nil {
		return pawl.Completion{}, err
	}
	_, err = t.Step(ctx, "pay", "pay", string(payload))
	var failed *pawl.Failure
	if err != nil && !(errors.As(err, &failed) && failed.Code == "DENIED") {
		return pawl.Completion{}, err
	}
	return pawl.Completion{Event: "Next"}, nil
}
