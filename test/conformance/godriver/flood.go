package godriver

import (
	"context"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// flood sends heartbeats as fast as it can, and counts the receipts that took
// or refused them.
func (d *driver) flood(ctx context.Context, a args) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	stream, err := pawlv1.NewWorkerServiceClient(d.conn).Work(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Register{Register: &pawlv1.WorkerRegistration{
		WorkerId: "flood", Packs: a.Packs, Prompts: []string{"*"}, TurnCapacity: 1,
	}}})
	for id := 1; err == nil && id <= a.Beats; id++ {
		err = stream.Send(&pawlv1.WorkRequest{Id: uint64(id), Item: &pawlv1.WorkRequest_Heartbeat{Heartbeat: &pawlv1.WorkerHeartbeat{}}})
	}
	if err != nil {
		return nil, err
	}
	counts := map[string]int{"ok": 0, "refused": 0, "other": 0}
	for got := 0; got < a.Beats; {
		response, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if receipt := response.GetReceipt(); receipt != nil {
			got++
			count(counts, receipt)
		}
	}
	return counts, stream.CloseSend()
}

// count adds a receipt to its kind.
func count(counts map[string]int, receipt *pawlv1.WorkReceipt) {
	switch {
	case receipt.GetError() == nil:
		counts["ok"]++
	case codes.Code(receipt.GetError().GetCode()) == codes.ResourceExhausted:
		counts["refused"]++
	default:
		counts["other"]++
	}
}
