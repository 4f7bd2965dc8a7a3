package effects

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// stepPayload is the payload of a step that the sidecar itself requests because of an earlier call.
type stepPayload struct {
	// Key is the idempotency key of the earlier call.
	Key     string          `json:"idempotency_key"`
	Tool    string          `json:"tool"`
	Payload json.RawMessage `json:"payload"`
	// Outcome is the outcome of the earlier call. It is set for a compensating tool: "ok" if there is a
	// result, or "unknown".
	Outcome string          `json:"outcome,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	// Omitted reports whether the payload and the result were left out because they are too long.
	Omitted bool `json:"omitted,omitempty"`
}

// maxRepeated bounds the payload and result of the earlier call in a stepPayload, in bytes.
const maxRepeated = 1 << 20

// LoadPayloads stamps the payloads of the steps that the sidecar itself requests. It reports whether it
// stamped any payload. If it did, the machine must decide about the input again.
func (b *Index) LoadPayloads(ctx context.Context, key machine.RunKey, in *machine.Input, batch *machine.Batch) (bool, error) {
	missing := rules.Unfilled(batch)
	for _, r := range missing {
		payload, err := b.payload(ctx, key, r.About, batch)
		if err != nil {
			return false, err
		}
		in.Fills = append(in.Fills, machine.Fill{Step: r.Step, Payload: payload, Hash: validate.PayloadHash(payload)})
	}
	return len(missing) > 0, nil
}

func (b *Index) payload(ctx context.Context, key machine.RunKey, about *machine.About, batch *machine.Batch) ([]byte, error) {
	out := stepPayload{Key: machine.IdempotencyKey(key.ID, about.Step), Tool: about.Tool}
	body, err := b.body(ctx, key, about.PayloadSeq, batch)
	if err != nil {
		return nil, err
	}
	switch r := body.(type) {
	case *machine.StepRequested:
		out.Payload = r.Payload
	case *machine.StepDecided: // an approver edited the arguments of the call
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

// resultOf returns the result of the earlier call. This is either the result in the call's own answer,
// or the result that the reconcile tool reported.
func resultOf(r *machine.StepResolved, about *machine.About) json.RawMessage {
	if r.Step == about.Step {
		return r.Result
	}
	_, _, value := rules.ReadOutcome(r.Result)
	return value
}

// body returns the body of a record of the run. The record may also be in the batch, which is not
// stored yet.
func (b *Index) body(ctx context.Context, key machine.RunKey, seq uint64, batch *machine.Batch) (machine.Body, error) {
	if seq > batch.Prev {
		return batch.Records[seq-batch.Prev-1].Body, nil
	}
	return b.past.Body(ctx, key, seq)
}
