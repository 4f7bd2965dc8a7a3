package calllimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Streams limits the number of calls that stay open while idle, such as streams and waits. There is a
// limit for all calls, for each namespace and for each principal.
type Streams struct {
	limit int64
	open  atomic.Int64
	book  *quota.Limits
}

// NewStreams returns Streams with a total limit and the quotas of book.
func NewStreams(limit int, book *quota.Limits) *Streams {
	return &Streams{limit: int64(limit), book: book}
}

// Enter counts an open call of a namespace. "" means the caller's own namespace. The caller must call
// the returned function leave when the call ends.
func (s *Streams) Enter(ctx context.Context, namespace string) (leave func(), err error) {
	if s.open.Add(1) > s.limit {
		s.open.Add(-1)
		return nil, &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "MAX_STREAMS", Limit: s.limit, RetryAfter: int64(time.Second),
			Message: "too many streams and waits are open",
		}
	}
	if namespace == "" {
		namespace = auth.CallerNamespace(ctx)
	}
	back, err := s.book.Enter(quota.Streams, quota.Namespace(namespace), quota.Principal(auth.CallerOf(ctx).Speaker()))
	if err != nil {
		s.open.Add(-1)
		return nil, err
	}
	return func() { back(); s.open.Add(-1) }, nil
}
