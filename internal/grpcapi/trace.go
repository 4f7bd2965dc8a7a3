package grpcapi

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// traceHeaderName is the metadata key and the HTTP header of W3C trace context.
const traceHeaderName = "traceparent"

// traceparentOf is the trace context that a call came with; "" = none. Of several
// none is the caller's for certain.
func traceparentOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, traceHeaderName); len(values) == 1 {
		return values[0]
	}
	return ""
}
