package grpcapi

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// traceHeaderName is the metadata key and the HTTP header of W3C trace context.
const traceHeaderName = "traceparent"

type traceparentKey struct{}

// withTraceparent marks a command of a stream that has a trace context of its own.
func withTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// traceparentOf is the trace context that a call came with; "" = none. Of several
// none is the caller's for certain.
func traceparentOf(ctx context.Context) string {
	if own, ok := ctx.Value(traceparentKey{}).(string); ok {
		return own
	}
	if values := metadata.ValueFromIncomingContext(ctx, traceHeaderName); len(values) == 1 {
		return values[0]
	}
	return ""
}
