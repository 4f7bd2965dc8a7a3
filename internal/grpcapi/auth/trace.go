package auth

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// TraceHeader is the metadata key and the HTTP header of W3C trace context.
const TraceHeader = "traceparent"

// TraceOf returns the trace context of a call, or "". If the call has several trace contexts, it
// returns "", because it is unknown which of them the caller sent.
func TraceOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, TraceHeader); len(values) == 1 {
		return values[0]
	}
	return ""
}
