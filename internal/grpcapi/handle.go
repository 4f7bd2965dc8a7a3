package grpcapi

import (
	"context"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// handleUnary executes a call that changes a run. The function ask converts the request, do is the
// method of the engine that executes it, and tell converts the answer to the response. The engine is
// called only once, because its answer contains everything that the response needs.
func handleUnary[In interface{ GetNamespace() string }, Req, Out any](
	ctx context.Context, s *runService, in In,
	ask func(convert.Caller, In) (Req, error), do func(context.Context, Req) (runtime.Answer, error), tell func(*convert.Answer) Out,
) (out Out, err error) {
	req, err := ask(callerOf(ctx), in)
	if err != nil {
		return out, err
	}
	got, err := do(ctx, req)
	if err != nil {
		return out, s.withConflictRecord(ctx, in, err)
	}
	out = tell(&convert.Answer{Answer: got, Cursors: s.views})
	return out, s.redactor.HideAnswer(ctx, callOf(ctx, in.GetNamespace()), got.State, out)
}

// traced returns a conversion that also adds the caller's trace context to the request. It is used for
// calls that start a run. The run then belongs to the caller's trace.
func traced[In, Req any](ctx context.Context, ask func(convert.Caller, In) (Req, error)) func(convert.Caller, In) (Req, error) {
	return func(c convert.Caller, in In) (Req, error) {
		c.Traceparent = auth.TraceOf(ctx)
		return ask(c, in)
	}
}
