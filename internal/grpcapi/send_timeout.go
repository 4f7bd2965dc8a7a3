package grpcapi

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// sendTimeout limits the wait for a reader to take a message. During the wait the store must
// keep one moment's versions, perhaps for a client that is gone.
const sendTimeout = 2 * time.Minute

// sendWithTimeout sends a message. It waits no longer than ctx and [sendTimeout] last. After an
// error the caller must send no more: the message may still be waiting until the call has
// returned. Errors: the cause of ctx, *machine.Error READER_STALLED, those of send.
func sendWithTimeout(ctx context.Context, send func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- send() }()
	patience := time.NewTimer(sendTimeout)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "READER_STALLED", Limit: int64(sendTimeout / time.Second),
			Message: "nothing was taken of the stream for so many seconds",
		}
	}
}
