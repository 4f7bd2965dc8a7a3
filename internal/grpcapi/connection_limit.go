package grpcapi

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// A client that opens streams and resets them immediately makes the server start and discard a handler
// at the cost of a few bytes (CVE-2023-44487). A client that violates the protocol in each stream makes
// the server reset the streams (CVE-2025-8671). gRPC's server limits the number of running handlers,
// but not the rate at which they start. So each connection has a limit for streams that are reset while
// they are young. A connection that exceeds the limit receives ENHANCE_YOUR_CALM and is closed. Older
// streams may be cancelled in any number, because a program that watches ten thousand runs may cancel
// them all at once.
const (
	// youngResets is the number of allowed resets per second, and youngResetsBurst the number that is
	// allowed at once. A client that cancels calls in the normal way needs less.
	youngResets      = 100
	youngResetsBurst = 500
	// youngFor is the minimum age at which a stream no longer counts as young.
	youngFor = time.Second
	// drainReadTime is how long the last frames of a client are read and discarded. This time lets the client
	// read the GOAWAY.
	drainReadTime = 250 * time.Millisecond
)

// Constants of HTTP/2 (RFC 9113).
const (
	prefaceBytes    = 24
	frameHeader     = 9
	frameHeaders    = 1
	frameReset      = 3
	frameGoAway     = 7
	enhanceYourCalm = 11
)

var errRapidReset = errors.New("the client resets streams faster than the server takes")

// frames parses the frames of one direction of a connection. It uses only the headers of the frames.
type frames struct {
	head   [frameHeader]byte
	length int
	// skip is the number of bytes to skip. They are the connection preface, or the rest of a payload.
	skip int
}

// scan calls found with the type and the stream of each frame whose header ends in p.
func (f *frames) scan(p []byte, found func(kind byte, stream uint32)) {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.length:], p)
		f.length += n
		p = p[n:]
		if f.length == frameHeader {
			f.length, f.skip = 0, int(f.head[0])<<16|int(f.head[1])<<8|int(f.head[2])
			found(f.head[3], binary.BigEndian.Uint32(f.head[5:])&(1<<31-1))
		}
	}
}

// isComplete reports whether the last frame is complete and no other frame has begun.
func (f *frames) isComplete() bool { return f.length == 0 && f.skip == 0 }

// limitedConn is the server's side of an HTTP/2 connection. It limits how many young streams are reset.
type limitedConn struct {
	net.Conn
	in frames
	// writing protects out, goAwayPending and ended.
	writing sync.Mutex
	out     frames
	// goAwayPending means that a GOAWAY must be sent as soon as no frame is partly written. After the GOAWAY was
	// sent, ended is set and goAwaySent is closed.
	goAwayPending, ended bool
	goAwaySent           chan struct{}

	// resets is a mutex. It protects the fields below it, because both directions of the connection count resets.
	resets  sync.Mutex
	allowed *rate.Limiter
	now     func() time.Time
	// last, recent and old are numbers of HTTP/2 streams, by which young streams are recognized: a later stream has a
	// higher number. last is the newest stream. recent was the newest stream at the time since. old was the newest
	// stream one period before that. A stream with a number above old is young.
	last, recent, old uint32
	since             time.Time
	exceeded          bool
}

// limitResets wraps the server's side of an HTTP/2 connection and enforces the limit for resets of young
// streams.
func limitResets(conn net.Conn) net.Conn { return newConn(conn) }

func newConn(conn net.Conn) *limitedConn {
	return &limitedConn{
		Conn: conn, in: frames{skip: prefaceBytes}, goAwaySent: make(chan struct{}),
		allowed: rate.NewLimiter(youngResets, youngResetsBurst), now: time.Now,
	}
}

// Read reads from the connection. After the client has exceeded its limit, Read fails.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.scan(p[:n], c.count)
	if c.isExceeded() {
		c.closeWithGoAway()
		return 0, errRapidReset
	}
	return n, err
}

// Write writes to the connection. It also counts the streams that the server resets.
func (c *limitedConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.ended {
		return 0, errRapidReset
	}
	c.out.scan(p, func(kind byte, stream uint32) {
		if kind == frameReset {
			c.count(kind, stream)
		}
	})
	n, err := c.Conn.Write(p)
	if c.goAwayPending && c.out.isComplete() {
		c.sendGoAway()
	}
	return n, err
}

// count counts a frame that begins or resets a stream. If too many young streams are reset, it sets exceeded.
func (c *limitedConn) count(kind byte, stream uint32) {
	if kind != frameHeaders && kind != frameReset {
		return
	}
	c.resets.Lock()
	defer c.resets.Unlock()
	now := c.now()
	if now.Sub(c.since) >= youngFor {
		c.old, c.recent, c.since = c.recent, c.last, now
	}
	switch {
	case kind == frameHeaders:
		c.last = max(c.last, stream)
	case stream > c.old && !c.allowed.AllowN(now, 1):
		c.exceeded = true
	}
}

func (c *limitedConn) isExceeded() bool {
	c.resets.Lock()
	defer c.resets.Unlock()
	return c.exceeded
}

// closeWithGoAway sends a GOAWAY after the current frame of the server. Then it reads and discards the data that is still
// in transit, because closing a connection with unread bytes would also discard the GOAWAY. drainReadTime limits the time
// for all of this. A client that does not read in this time does not receive the GOAWAY.
func (c *limitedConn) closeWithGoAway() {
	late := time.NewTimer(drainReadTime)
	defer late.Stop()
	_ = c.SetDeadline(time.Now().Add(drainReadTime))
	c.writing.Lock()
	c.goAwayPending = true
	if c.out.isComplete() {
		c.sendGoAway()
	}
	c.writing.Unlock()
	select {
	case <-c.goAwaySent:
		_, _ = io.Copy(io.Discard, c.Conn)
	case <-late.C:
	}
}

// sendGoAway writes the GOAWAY as the last frame. The caller must hold the mutex c.writing.
func (c *limitedConn) sendGoAway() {
	if c.ended {
		return
	}
	c.ended = true
	_, _ = c.Conn.Write(goAway(c.newestStream()))
	close(c.goAwaySent)
}

func (c *limitedConn) newestStream() uint32 {
	c.resets.Lock()
	defer c.resets.Unlock()
	return c.last
}

func goAway(last uint32) []byte {
	const words = "too many streams were reset"
	frame := []byte{0, 0, byte(8 + len(words)), frameGoAway, 0, 0, 0, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, last)
	frame = binary.BigEndian.AppendUint32(frame, enhanceYourCalm)
	return append(frame, words...)
}

// streamLimiter limits the number of calls that stay open while idle, for example streams and waits. There is a
// limit for all calls, for each namespace and for each principal.
type streamLimiter struct {
	limit int64
	open  atomic.Int64
	book  *quota.Limits
}

// newStreamLimiter returns a streamLimiter with a total limit and the quotas of book.
func newStreamLimiter(limit int, book *quota.Limits) *streamLimiter {
	return &streamLimiter{limit: int64(limit), book: book}
}

// Enter counts an open call of a namespace. "" means the caller's own namespace. The caller must call
// the returned function leave when the call ends.
func (s *streamLimiter) Enter(ctx context.Context, namespace string) (leave func(), err error) {
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

// sendTimeout is how long a send waits for the reader. The time is limited because the store must keep an old version
// of its data during this wait, perhaps for a client that is disconnected.
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
