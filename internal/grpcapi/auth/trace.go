package auth

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// TraceHeader is the metadata key and the HTTP header of W3C trace context.
const TraceHeader = "traceparent"

// TraceOf is the trace context that a call came with; "" = none. Of several none is the caller's
// for certain.
func TraceOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, TraceHeader); len(values) == 1 {
		return values[0]
	}
	return ""
}
