package grpcapi

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// sendTimeout is how long a send waits for the reader. During this wait the store must keep an old
// version of its data, perhaps for a client that is disconnected.
const sendTimeout = 2 * time.Minute

// sendWithTimeout sends a message. It waits until ctx ends, but at most for [sendTimeout]. After an
// error the caller must not send again, because the send may still be running until the call has
// returned. Errors: the cause of ctx, *machine.Error READER_STALLED, the errors of send.
func sendWithTimeout(ctx context.Context, send func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- send() }()
	timer := time.NewTimer(sendTimeout)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "READER_STALLED", Limit: int64(sendTimeout / time.Second),
			Message: "the client read nothing from the stream for the number of seconds in limit",
		}
	}
}
