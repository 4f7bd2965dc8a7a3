package effects

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// stepPayload is the payload of a step with which the sidecar asks about an earlier call or compensates
// it.
type stepPayload struct {
	// Key is the idempotency key of the earlier call.
	Key     string          `json:"idempotency_key"`
	Tool    string          `json:"tool"`
	Payload json.RawMessage `json:"payload"`
	// Outcome is the outcome of the earlier call, for a compensating tool: "ok" if there is a result, or
	// "unknown".
	Outcome string          `json:"outcome,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	// Omitted reports whether the payload and the result were left out because together they are too
	// long.
	Omitted bool `json:"omitted,omitempty"`
}

// maxRepeated bounds the payload and the result of the earlier call in a stepPayload together, in bytes.
const maxRepeated = 1 << 20

// LoadPayloads adds to the input the payloads of steps that the sidecar itself requests. missing are the
// requests without a payload, from [rules.Unfilled]. Afterwards package rules must decide about the
// input a second time.
func (b *Index) LoadPayloads(ctx context.Context, key machine.RunKey, in *machine.Input, batch *machine.Batch, missing []*machine.StepRequested) error {
	for _, r := range missing {
		payload, err := b.payload(ctx, key, r.About, batch)
		if err != nil {
			return err
		}
		in.Fills = append(in.Fills, machine.Fill{Step: r.Step, Payload: payload, Hash: validate.PayloadHash(payload)})
	}
	return nil
}

// payload returns the payload of a step that asks about the call of another step or compensates it. batch is the
// batch that is being computed; other records are read from the store.
func (b *Index) payload(ctx context.Context, key machine.RunKey, about *machine.About, batch *machine.Batch) ([]byte, error) {
	out := stepPayload{Key: machine.IdempotencyKey(key.ID, about.Step), Tool: about.Tool}
	body, err := b.body(ctx, key, about.PayloadSeq, batch)
	if err != nil {
		return nil, err
	}
	switch r := body.(type) {
	case *machine.StepRequested:
		out.Payload = r.Payload
	case *machine.StepDecided: // an approver has edited the payload of the call
		out.Payload = r.Payload
	}
	if about.Role == machine.RoleCompensate {
		out.Outcome = "unknown"
	}
	if about.AnswerSeq != 0 {
		body, err := b.body(ctx, key, about.AnswerSeq, batch)
		if err != nil {
			return nil, err
		}
		if r, ok := body.(*machine.StepResolved); ok {
			out.Outcome, out.Result = "ok", resultOf(r, about)
		}
	}
	if len(out.Payload)+len(out.Result) > maxRepeated {
		out.Payload, out.Result, out.Omitted = nil, nil, true
	}
	payload, err := json.Marshal(&out)
	if err != nil {
		return nil, fmt.Errorf("runtime: the payload of a step about step %d of run %s: %w", about.Step, key.ID, err)
	}
	return payload, nil
}

// resultOf returns the result of the earlier call: from the call's own answer, or from the answer of the
// reconcile tool about it.
func resultOf(r *machine.StepResolved, about *machine.About) json.RawMessage {
	if r.Step == about.Step {
		return r.Result
	}
	_, _, value := rules.ReadOutcome(r.Result)
	return value
}

// body returns the body of a record of the run. The record may be in the batch, which is not stored yet.
func (b *Index) body(ctx context.Context, key machine.RunKey, seq uint64, batch *machine.Batch) (machine.Body, error) {
	if seq > batch.Prev {
		return batch.Records[seq-batch.Prev-1].Body, nil
	}
	return b.history.Body(ctx, key, seq)
}
