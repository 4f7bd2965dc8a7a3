package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/model"
)

const (
	// reportTimeout bounds the time for reporting a model call whose turn has already ended. The usage
	// is reported even then, because the call must be paid for.
	reportTimeout = 5 * time.Second
	// reportAttempts is the number of times that an answer is sent while the sidecar is unavailable or overloaded. The
	// first pause is firstPause. Each further pause is twice as long.
	reportAttempts = 7
	firstPause     = 100 * time.Millisecond
	// codeAbandoned is the error code of a call whose turn has ended or was assigned to another worker.
	codeAbandoned = "MODEL_ABANDONED"
)

// call makes attempts of a model call until the model has answered or the call has failed finally.
func (e *Executor) call(ctx context.Context, x *exchange, step *pawlv1.Step, limit int64) (*pawlv1.Step, error) {
	req, err := e.modelRequest(ctx, x, step)
	if err != nil {
		return nil, err
	}
	req.Round = x.round
	req.MaxAnswer, req.MaxTokens = limit, cmp.Or(step.GetModel().GetMaxOutputTokens(), x.maxTokens)
	if at := step.GetModel().GetNotBefore(); at != nil {
		if err := pause(ctx, time.Until(at.AsTime())); err != nil {
			return nil, err
		}
	}
	for attempt := step.GetAttempt(); ; {
		came := x.attempt(ctx, req)
		got, err := came.submit(ctx, x.turn, step.GetStep(), attempt)
		if err == nil {
			err = came.checkTurnOpen(ctx, got)
		}
		if err != nil {
			return nil, err
		}
		if came.failure == nil {
			step.Status, step.Model = pawlv1.StepStatus_STEP_STATUS_OK, &pawlv1.ModelStep{Answer: came.answer, Usage: came.usage}
			return step, nil
		}
		attempt = got.GetNext()
		if err := pause(ctx, got.GetWait().AsDuration()); err != nil {
			return nil, err
		}
	}
}

// outcome is the result of one attempt.
type outcome struct {
	answer  *pawlv1.ModelAnswer
	failure *model.Failure
	usage   *pawlv1.Usage
	// limits are the rate limits that the provider reported with the attempt.
	limits *pawlv1.ProviderLimits
}

// attempt calls the model once.
func (x *exchange) attempt(ctx context.Context, req *model.Request) (came outcome) {
	var err error
	req.OnThought = func(text string) { x.streamThought(ctx, text) }
	req.OnProviderLimits = func(limits *pawlv1.ProviderLimits) { came.limits = limits }
	came.answer, came.usage, err = x.endpoint.Ask(ctx, req, func(text string) { x.streamText(ctx, text) })
	if came.usage != nil {
		came.usage.Model = x.endpoint.Name
	}
	if err == nil {
		if err = checkUsable(x.endpoint.Name, came.answer); err != nil && req.MaxTokens > 0 && came.answer.GetFinishReason() == "length" {
			err = cutAt(x.endpoint.Name, req.MaxTokens)
		}
	}
	if err != nil && !errors.As(err, &came.failure) {
		came.failure = &model.Failure{Code: codeAbandoned, Message: "model " + x.endpoint.Name + ": the turn was over before there was an answer"}
	}
	return came
}

// submit reports the outcome of one attempt of a model call to the sidecar. While the sidecar is unavailable or
// overloaded, submit repeats the report, because the answer must be paid for. If ctx has ended, submit still reports an
// outcome that is known, within reportTimeout. If the sidecar refuses an answer, submit reports a failure with the same
// usage.
func (o *outcome) submit(ctx context.Context, turn *pawl.Turn, step uint32, attempt int32) (*pawlv1.AnswerModelResponse, error) {
	if ctx.Err() != nil {
		if o.failure != nil && o.usage == nil {
			return nil, ctx.Err() // the outcome is unknown
		}
		var done context.CancelFunc
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
		defer done()
	}
	for n, wait := 1, firstPause; ; n, wait = n+1, 2*wait {
		got, err := turn.AnswerModel(ctx, o.report(step, attempt))
		switch {
		case err == nil:
			return got, nil
		case o.failure == nil && isRefusal(err):
			o.failure = &model.Failure{Code: pawl.ReasonOf(err), Message: err.Error(), Final: true}
			if f, ok := errors.AsType[*pawl.Failure](err); ok {
				o.failure.Code, o.failure.Message = f.Code, f.Message
			}
		case n == reportAttempts || status.Code(err) != codes.Unavailable && status.Code(err) != codes.ResourceExhausted:
			return nil, err
		default:
			if err := pause(ctx, wait); err != nil {
				return nil, err
			}
		}
	}
}

// isRefusal reports whether the sidecar refuses an answer permanently, so that it must not be sent again.
func isRefusal(err error) bool {
	_, large := errors.AsType[*pawl.Failure](err)
	return large || pawl.ReasonOf(err) == model.CodeTooLarge || status.Code(err) == codes.InvalidArgument
}

func (o *outcome) report(step uint32, attempt int32) *pawlv1.AnswerModelRequest {
	report := &pawlv1.AnswerModelRequest{Step: step, Attempt: attempt, Usage: o.usage, ProviderLimits: o.limits}
	if o.failure != nil {
		report.Outcome = &pawlv1.AnswerModelRequest_Failure{Failure: failureOf(o.failure)}
	} else {
		report.Outcome = &pawlv1.AnswerModelRequest_Answer{Answer: o.answer}
	}
	return report
}

// checkTurnOpen returns an error if the turn cannot continue after the outcome of a model call was reported, for
// example because the turn has ended.
func (o *outcome) checkTurnOpen(ctx context.Context, got *pawlv1.AnswerModelResponse) error {
	switch got.GetDisposition() {
	case pawlv1.Disposition_DISPOSITION_IGNORED_TERMINAL, pawlv1.Disposition_DISPOSITION_IGNORED_STALE, pawlv1.Disposition_DISPOSITION_IGNORED_UNKNOWN_RUN:
		return &pawl.Failure{Code: codeAbandoned, Message: "the turn was over before the model had answered"}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case o.failure != nil && got.GetNext() == 0:
		return &pawl.Failure{Code: o.failure.Code, Message: o.failure.Message, Final: o.failure.Final}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// modelRequest returns the recorded request in the form that the endpoint needs.
func (e *Executor) modelRequest(ctx context.Context, x *exchange, step *pawlv1.Step) (*model.Request, error) {
	got, err := e.runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{
		Namespace: e.cfg.Namespace, RunId: x.turn.Assignment.GetLease().GetRunId(), Step: step.GetStep(),
	})
	if err != nil {
		return nil, err
	}
	e.warnOf(got.GetMessages())
	return readRequest(got)
}

// warnOf reports that messages of a library are rebuilt and lose data that only the provider uses. It
// reports this once for each library.
func (e *Executor) warnOf(messages []*pawlv1.Message) {
	for _, m := range messages {
		library := model.ForeignLibrary(m)
		if library == "" || e.cfg.OnError == nil {
			continue
		}
		if _, known := e.warned.LoadOrStore(library, true); !known {
			e.cfg.OnError(fmt.Errorf("answers recorded by %s are sent to models as their text and calls: reasoning and signatures in them are lost", library))
		}
	}
}

// maxMessage bounds the text of an error, in bytes. The API has the same limit.
const maxMessage = 16 << 10

func failureOf(f *model.Failure) *pawlv1.ModelFailure {
	out := &pawlv1.ModelFailure{NonRetryable: f.Final, Error: &pawlv1.Fault{Code: f.Code, Message: strings.ToValidUTF8(f.Message[:min(len(f.Message), maxMessage)], "")}}
	if f.RetryAfter > 0 {
		out.RetryAfter = durationOf(f.RetryAfter)
	}
	return out
}
