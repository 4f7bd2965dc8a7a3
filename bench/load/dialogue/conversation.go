package dialogue

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/bench/load/stat"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// Job is what is measured on turns of so many rounds, of runs of a pack. A round brings a new
// message and an answer of Bytes each.
type Job struct {
	Pack          string
	Rounds, Bytes int
	// Samples of late rounds against early ones, each over so many pairs of turns.
	Samples, Pairs int
	// Stops are the runs that are stopped while a worker executes their turn.
	Stops int
}

// Result of a job.
type Result struct {
	// P50us is what a round took, request and answer.
	P50us float64 `json:"p50_us"`
	// Ratios have, for each sample, the median of the last rounds over that of those from the
	// second on.
	Ratios []float64 `json:"ratios"`
	// NewBytes is how many bytes were new in one turn, Stored what the store holds more than
	// before it.
	NewBytes int64 `json:"said"`
	Stored   int64 `json:"stored"`
	// StopP99ms is the time from StopRun to the worker's abort signal, p99.
	StopP99ms float64 `json:"stop_p99_ms"`
}

// few rounds make an end of a turn.
const few = 10

// Run measures on an otherwise idle sidecar.
func Run(ctx context.Context, conn *grpc.ClientConn, job Job) (out Result, err error) {
	if job.Rounds < 2*few+1 {
		return out, fmt.Errorf("dialogue: %d rounds, want at least %d", job.Rounds, 2*few+1)
	}
	before, err := stored(ctx, conn)
	if err != nil {
		return out, err
	}
	all, err := runOneTurn(ctx, conn, job)
	if err != nil {
		return out, err
	}
	after, err := stored(ctx, conn)
	if err != nil {
		return out, err
	}
	out.P50us, out.NewBytes, out.Stored = micros(stat.Quantile(all, 0.5)), int64(2*job.Bytes*job.Rounds), after-before
	for range job.Samples {
		early, late, err := sample(ctx, conn, job)
		if err != nil {
			return out, err
		}
		out.Ratios = append(out.Ratios, micros(stat.Quantile(late, 0.5))/micros(stat.Quantile(early, 0.5)))
	}
	stopped, err := stops(ctx, conn, job)
	out.StopP99ms = micros(stat.Quantile(stopped, 0.99)) / 1000
	return out, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// runOneTurn speaks one turn and returns how long each round took.
func runOneTurn(ctx context.Context, conn *grpc.ClientConn, job Job) ([]time.Duration, error) {
	t, err := begin(ctx, conn, job)
	if err != nil {
		return nil, err
	}
	return t.runRounds(ctx, job.Rounds)
}

// sample takes the last rounds of turns and the first rounds of others in turn, so that the state
// of the disk affects both.
func sample(ctx context.Context, conn *grpc.ClientConn, job Job) (early, late []time.Duration, err error) {
	for range job.Pairs {
		old, err := begin(ctx, conn, job)
		if err != nil {
			return nil, nil, err
		}
		if _, err = old.runRounds(ctx, job.Rounds-few); err != nil {
			return nil, nil, err
		}
		fresh, err := begin(ctx, conn, job)
		if err != nil {
			return nil, nil, err
		}
		if _, err = fresh.runRounds(ctx, 1); err != nil {
			return nil, nil, err
		}
		for range few {
			a, err := fresh.runRounds(ctx, 1)
			if err != nil {
				return nil, nil, err
			}
			b, err := old.runRounds(ctx, 1)
			if err != nil {
				return nil, nil, err
			}
			early, late = append(early, a...), append(late, b...)
		}
	}
	return early, late, nil
}

// turn is one that is spoken, round after round.
type turn struct {
	runs  pawlv1.RunServiceClient
	ref   *pawlv1.TurnRef
	bytes int
	n     int
	last  uint32
}

func begin(ctx context.Context, conn *grpc.ClientConn, job Job) (*turn, error) {
	runs := pawlv1.NewRunServiceClient(conn)
	begun, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: job.Pack, Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: words(12)})
	if err != nil {
		return nil, fmt.Errorf("dialogue: %w", err)
	}
	open, err := runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: begun.GetRun().GetRunId()})
	if err != nil {
		return nil, fmt.Errorf("dialogue: %w", err)
	}
	return &turn{runs: runs, ref: open.GetTurn(), bytes: job.Bytes}, nil
}

// runRounds makes the next rounds and returns how long each took.
func (t *turn) runRounds(ctx context.Context, rounds int) ([]time.Duration, error) {
	took := make([]time.Duration, rounds)
	for i := range took {
		asked, answer := words(t.bytes), words(t.bytes)
		t.n++
		start := time.Now()
		last, err := round(ctx, t.runs, t.ref, t.n, t.last, asked, answer)
		if err != nil {
			return nil, fmt.Errorf("dialogue: round %d: %w", t.n, err)
		}
		took[i], t.last = time.Since(start), last
	}
	return took, nil
}

// round asks, behind the step follows, and answers.
func round(ctx context.Context, runs pawlv1.RunServiceClient, ref *pawlv1.TurnRef, n int, follows uint32, asked, answer string) (uint32, error) {
	got, err := runs.RequestModel(ctx, &pawlv1.RequestModelRequest{
		RunId: ref.GetRunId(), TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(), Round: int32(n),
		Request: &pawlv1.ModelRequest{Model: "bench", PreviousStep: follows, Messages: []*pawlv1.ModelMessage{{
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
