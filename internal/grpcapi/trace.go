package grpcapi

import (
	"context"

	"github.com/pawl-dev/pawl/internal/grpcapi/door"
)

// traceHeaderName is the metadata key and the HTTP header of W3C trace context.
const traceHeaderName = door.TraceHeader

// withTraceparent marks a command of a stream that has a trace context of its own.
func withTraceparent(ctx context.Context, traceparent string) context.Context {
	return door.WithTrace(ctx, traceparent)
}

// traceparentOf is the trace context that a call came with; "" = none.
func traceparentOf(ctx context.Context) string { return door.TraceOf(ctx) }
