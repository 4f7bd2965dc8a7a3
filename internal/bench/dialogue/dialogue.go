package dialogue

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/bench/latency"
)

// Job is some turns of so many rounds each, one after the other, of runs of a pack. A round
// brings a new message and an answer of Bytes each.
type Job struct {
	Pack                 string
	Turns, Rounds, Bytes int
}

// Result of a job.
type Result struct {
	// P50us is what a round took, request and answer.
	P50us float64 `json:"p50_us"`
	// EarlyUs and LateUs have, for each turn, the median of the rounds from the second on
	// and of as many last ones.
	EarlyUs []float64 `json:"early_us"`
	LateUs  []float64 `json:"late_us"`
	// Said is how many bytes were new, Stored what the store holds more than before.
	Said   int64 `json:"said"`
	Stored int64 `json:"stored"`
}

// few rounds make an end of a turn.
const few = 5

// Run measures on an otherwise idle sidecar.
func Run(ctx context.Context, conn *grpc.ClientConn, job Job) (out Result, err error) {
	if job.Rounds < 2*few+1 {
		return out, fmt.Errorf("dialogue: %d rounds, want at least %d", job.Rounds, 2*few+1)
	}
	before, err := stored(ctx, conn)
	if err != nil {
		return out, err
	}
	var all []time.Duration
	for range job.Turns {
		rounds, err := turn(ctx, pawlv1.NewRunServiceClient(conn), job)
		if err != nil {
			return out, err
		}
		all = append(all, rounds...)
		out.EarlyUs = append(out.EarlyUs, micros(latency.Of(rounds[1:1+few], 0.5)))
		out.LateUs = append(out.LateUs, micros(latency.Of(rounds[len(rounds)-few:], 0.5)))
		out.Said += int64(2 * job.Bytes * job.Rounds)
	}
	out.P50us = micros(latency.Of(all, 0.5))
	after, err := stored(ctx, conn)
	out.Stored = after - before
	return out, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// turn speaks one turn and returns how long each round took.
func turn(ctx context.Context, runs pawlv1.RunServiceClient, job Job) ([]time.Duration, error) {
	begun, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: job.Pack, Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: words(12)})
	if err != nil {
		return nil, fmt.Errorf("dialogue: %w", err)
	}
	open, err := runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: begun.GetRun().GetRunId()})
	if err != nil {
		return nil, fmt.Errorf("dialogue: %w", err)
	}
	took := make([]time.Duration, job.Rounds)
	last := uint32(0)
	for i := range took {
		asked, answer := words(job.Bytes), words(job.Bytes)
		start := time.Now()
		if last, err = round(ctx, runs, open.GetTurn(), i+1, last, asked, answer); err != nil {
			return nil, fmt.Errorf("dialogue: round %d: %w", i+1, err)
		}
		took[i] = time.Since(start)
	}
	return took, nil
}

// round asks, behind the step follows, and answers.
func round(ctx context.Context, runs pawlv1.RunServiceClient, ref *pawlv1.TurnRef, n int, follows uint32, asked, answer string) (uint32, error) {
	got, err := runs.RequestModel(ctx, &pawlv1.RequestModelRequest{
		RunId: ref.GetRunId(), TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(), Round: int32(n),
		Request: &pawlv1.ModelRequest{Model: "bench", Follows: follows, Messages: []*pawlv1.ModelMessage{{
			Content: &pawlv1.ModelMessage_Message{Message: &pawlv1.Message{Role: "user", Parts: text(asked)}},
		}}},
	})
	if err != nil {
		return 0, err
	}
	step := got.GetStep()
	_, err = runs.AnswerModel(ctx, &pawlv1.AnswerModelRequest{
		RunId: ref.GetRunId(), Step: step.GetStep(), Attempt: step.GetAttempt(), TurnToken: ref.GetToken(),
		Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: &pawlv1.ModelAnswer{Parts: text(answer), FinishReason: "stop"}},
		Usage:   &pawlv1.Usage{InputTokens: 100, OutputTokens: 100},
	})
	return step.GetStep(), err
}

func text(words string) []*pawlv1.Part {
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: words}}}
}

// words are n bytes of text.
func words(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)[:n]
}

// stored is what all rows of a store hold, before compression.
func stored(ctx context.Context, conn *grpc.ClientConn) (n int64, err error) {
	got, err := pawlv1.NewStoreServiceClient(conn).GetStoreStats(ctx, &pawlv1.GetStoreStatsRequest{})
	if err != nil {
		return 0, fmt.Errorf("dialogue: %w", err)
	}
	rows := got.GetStats().GetShared()
	for _, ns := range got.GetStats().GetNamespaces() {
		rows = append(rows, ns.GetRows()...)
	}
	for _, r := range rows {
		n += r.GetKeyBytes() + r.GetValueBytes()
	}
	return n, nil
}
