package play

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Driver plays the app of one run of the crash pack. What it does at a turn is a
// function of the script's number, the turn and the attempt alone, so that a
// run that was disturbed must leave the very records of one that was not.
type Driver struct {
	Client pawlv1.RunServiceClient
	Script int
	// Acked counts acknowledged changes over all drivers.
	Acked *atomic.Int64
	// Ledger holds what was acknowledged: seq of a record -> its hash.
	Ledger map[uint64][]byte

	Run  string
	turn *pawlv1.GetTurnResponse
}

// Play starts the run and drives it to its end.
func (d *Driver) Play(ctx context.Context) error {
	start, err := Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
		return d.Client.StartRun(ctx, &pawlv1.StartRunRequest{
			Pack: "crash", Execution: pawlv1.Execution_EXECUTION_CALLER,
			VariablesJson: `{"topic":"ratchets"}`,
			RequestId:     fmt.Sprintf("run-%d", d.Script),
		})
	})
	if err != nil {
		return fmt.Errorf("StartRun: %w", err)
	}
	d.Run = start.Run.RunId
	d.note(start.Record)
	for {
		done, err := d.step(ctx)
		if err != nil || done {
			return err
		}
	}
}

// step executes the open turn; done when the run has ended.
func (d *Driver) step(ctx context.Context) (done bool, err error) {
	turn, err := Retry(ctx, func(ctx context.Context) (*pawlv1.GetTurnResponse, error) {
		return d.Client.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: d.Run})
	})
	if Reason(err) == "RUN_TERMINAL" {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("GetTurn: %w", err)
	}
	d.turn = turn
	ref := turn.Turn
	rng := rand.New(rand.NewPCG(uint64(d.Script), ref.TurnSeq<<8|uint64(ref.Attempt)))
	if turn.NotBefore != nil {
		return false, d.awaitReady(ctx)
	}
	if err := d.measure(ctx, rng); err != nil {
		return false, err
	}
	if rng.IntN(80) == 0 {
		return false, d.fail(ctx)
	}
	return false, d.move(ctx, rng)
}

// measure calls the tool up to twice, with keys, and answers it.
func (d *Driver) measure(ctx context.Context, rng *rand.Rand) error {
	ref := d.turn.Turn
	for i := range rng.IntN(3) {
		key := fmt.Sprintf("%d-%d-%d", ref.TurnSeq, ref.Attempt, i)
		n := rng.IntN(1000)
		answer, err := withToken(ctx, d, func(ctx context.Context, token string) (*pawlv1.RequestStepResponse, error) {
			return d.Client.RequestStep(ctx, &pawlv1.RequestStepRequest{
				RunId: d.Run, TurnSeq: ref.TurnSeq, Attempt: ref.Attempt, TurnToken: token, RequestId: "s-" + key,
				Requests: []*pawlv1.StepRequest{{Key: key, Tool: "measure", PayloadJson: fmt.Sprintf(`{"n":%d}`, n), ByCaller: true}},
			})
		})
		if err != nil {
			return ended(fmt.Errorf("RequestStep %s: %w", key, err))
		}
		if answer.Ended != nil {
			d.note(answer.Ended)
			return ErrRunEnded
		}
		step := answer.Outcomes[0].Step
		resolved, err := withToken(ctx, d, func(ctx context.Context, token string) (*pawlv1.ResolveStepResponse, error) {
			return d.Client.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
				RunId: d.Run, Step: step.Step, Tool: "measure", Attempt: 1, TurnToken: token,
				Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: fmt.Sprintf(`{"length":%d}`, n*2)},
			})
		})
		if err != nil {
			return ended(fmt.Errorf("ResolveStep %s: %w", key, err))
		}
		switch resolved.Disposition {
		case pawlv1.Disposition_DISPOSITION_ACCEPTED:
			d.note(resolved.Record)
		case pawlv1.Disposition_DISPOSITION_IGNORED_DUPLICATE:
		default:
			return fmt.Errorf("ResolveStep %s: %v", key, resolved.Disposition)
		}
	}
	return nil
}

// fail reports a failed attempt and waits for the next one.
func (d *Driver) fail(ctx context.Context) error {
	ref := d.turn.Turn
	answer, err := withToken(ctx, d, func(ctx context.Context, token string) (*pawlv1.FailTurnResponse, error) {
		return d.Client.FailTurn(ctx, &pawlv1.FailTurnRequest{
			RunId: d.Run, TurnSeq: ref.TurnSeq, Attempt: ref.Attempt, TurnToken: token,
			Error: &pawlv1.Fault{Code: "MODEL", Message: "the model was rude"}, Retryable: true,
			RequestId: fmt.Sprintf("f-%d-%d", ref.TurnSeq, ref.Attempt),
		})
	})
	if err != nil {
		return ended(fmt.Errorf("FailTurn: %w", err))
	}
	d.note(answer.Record)
	return d.awaitReady(ctx)
}

// awaitReady follows the run until the backoff of its turn is over.
func (d *Driver) awaitReady(ctx context.Context) error {
	_, err := Retry(ctx, func(ctx context.Context) (*pawlv1.Record, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := d.Client.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
			RunId: d.Run, Follow: true, AfterSeq: d.turn.Turn.TurnSeq,
			Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_READY},
		})
		for err == nil {
			var got *pawlv1.StreamTransitionsResponse
			got, err = stream.Recv()
			if ready := got.GetRecord().GetTurnReady(); ready != nil && ready.Attempt > d.attempt() {
				return got.GetRecord(), nil
			}
		}
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("await TurnReady: %w", err)
	}
	return nil
}

// attempt is the last attempt that is known to have failed: the turn's own
// while it is being executed, the one before while it is in backoff.
func (d *Driver) attempt() int32 {
	if d.turn.NotBefore != nil {
		return d.turn.Turn.Attempt - 1
	}
	return d.turn.Turn.Attempt
}

// move ends the turn with an event, half of the time with an output.
func (d *Driver) move(ctx context.Context, rng *rand.Rand) error {
	ref := d.turn.Turn
	writes := []*pawlv1.ArtifactWrite{
		{Name: "note", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: fmt.Sprintf("note %d", ref.TurnSeq)}}},
		{Name: "log", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: fmt.Sprintf(`{"seq":%d}`, ref.TurnSeq)}}},
	}
	event := ""
	if n := len(d.turn.AllowedEvents); n > 0 {
		event = d.turn.AllowedEvents[rng.IntN(n)]
	}
	if event == "" || rng.IntN(2) == 0 {
		return d.complete(ctx, event, writes)
	}
	answer, err := withToken(ctx, d, func(ctx context.Context, token string) (*pawlv1.EmitEventResponse, error) {
		return d.Client.EmitEvent(ctx, &pawlv1.EmitEventRequest{
			RunId: d.Run, Event: event, Artifacts: writes, TurnToken: token,
			EventId: fmt.Sprintf("e-%d-%d", ref.TurnSeq, ref.Attempt),
		})
	})
	if err != nil {
		return ended(fmt.Errorf("EmitEvent %s: %w", event, err))
	}
	d.note(answer.Transition, answer.Ended)
	return nil
}

func (d *Driver) complete(ctx context.Context, event string, writes []*pawlv1.ArtifactWrite) error {
	ref := d.turn.Turn
	answer, err := withToken(ctx, d, func(ctx context.Context, token string) (*pawlv1.CompleteTurnResponse, error) {
		return d.Client.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
			RunId: d.Run, TurnSeq: ref.TurnSeq, Attempt: ref.Attempt, TurnToken: token,
			Event: event, Artifacts: writes,
			Output:    []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "done"}}},
			Messages:  []*pawlv1.Message{{Role: "assistant", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "as said"}}}}},
			Usage:     &pawlv1.Usage{InputTokens: 10, OutputTokens: 3, CostMicroUsd: 7},
			RequestId: fmt.Sprintf("c-%d-%d", ref.TurnSeq, ref.Attempt),
		})
	})
	if err != nil {
		return ended(fmt.Errorf("CompleteTurn: %w", err))
	}
	d.note(answer.Record, answer.Transition, answer.Ended)
	return nil
}

// note writes acknowledged records into the ledger.
func (d *Driver) note(records ...*pawlv1.Record) {
	for _, r := range records {
		if r != nil {
			d.Ledger[r.Seq] = r.Hash
		}
	}
	d.Acked.Add(1)
}

// attemptTimeout bounds one attempt of a call.
const attemptTimeout = 15 * time.Second

// Retry repeats a call while the process is away.
func Retry[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	for {
		one, cancel := context.WithTimeout(ctx, attemptTimeout)
		answer, err := call(one)
		cancel()
		if ctx.Err() != nil {
			return answer, ctx.Err()
		}
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded:
			switch Reason(err) {
			case "DATABASE_AWAY", "NO_OWNER":
				// It says to come back in a second; less is enough here.
				backOff(ctx)
			}
			continue
		case codes.ResourceExhausted:
			if Reason(err) != "QUEUE_FULL" {
				return answer, err
			}
		default:
			return answer, err
		}
	}
}

// backOff waits a little, so that a client that is refused at once does not call in a tight loop.
func backOff(ctx context.Context) {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// withToken sends the very same request again after an outage: first with the
// old token, which must be answered as a duplicate if it had been committed,
// then with a new one.
func withToken[T proto.Message](ctx context.Context, d *Driver, call func(context.Context, string) (T, error)) (T, error) {
	for {
		answer, err := Retry(ctx, func(ctx context.Context) (T, error) { return call(ctx, d.turn.Turn.Token) })
		if Reason(err) != "TURN_TOKEN_STALE" {
			return answer, err
		}
		turn, err := Retry(ctx, func(ctx context.Context) (*pawlv1.GetTurnResponse, error) {
			return d.Client.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: d.Run})
		})
		if err != nil {
			return answer, fmt.Errorf("GetTurn for a new token: %w", err)
		}
		if turn.Turn.TurnSeq != d.turn.Turn.TurnSeq || turn.Turn.Attempt != d.turn.Turn.Attempt {
			return answer, fmt.Errorf("a refused request (turn %v) took effect: %v", d.turn.Turn, turn.Turn)
		}
		d.turn.Turn.Token = turn.Turn.Token
	}
}

// ErrRunEnded means that a budget ended the run inside the turn.
var ErrRunEnded = errors.New("run ended")

// ended turns the refusal of a run that has ended into ErrRunEnded.
func ended(err error) error {
	if Reason(err) == "RUN_TERMINAL" {
		return ErrRunEnded
	}
	return err
}

// Reason is the ErrorInfo reason of a gRPC error, or "".
func Reason(err error) string {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return ""
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}
