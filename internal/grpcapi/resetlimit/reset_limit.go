package resetlimit

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A client that opens streams and resets them at once makes the server start and discard a handler for a
// few bytes (CVE-2023-44487). A client that violates the protocol in each stream makes the server do the
// resetting (CVE-2025-8671). gRPC's server limits the running handlers, not their rate. So each connection
// has an allowance for streams that are reset while they are young. A connection that exceeds it gets
// ENHANCE_YOUR_CALM and is closed. Older streams may be cancelled in any number: a program that watches ten
// thousand runs cancels them all at once.
const (
	// youngResets is the allowance per second, youngResetsBurst the allowance at once. A client that
	// cancels calls needs less.
	youngResets      = 100
	youngResetsBurst = 500
	// youngFor is the age, at least, from which on a stream does not count as young.
	youngFor = time.Second
	// goodbye is how long the last frames of a client are read and discarded, so that the client
	// can read the GOAWAY.
	goodbye = 250 * time.Millisecond
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

// frames reads the frames of one direction of a connection. It uses only their headers.
type frames struct {
	head [frameHeader]byte
	have int
	// skip is the number of bytes to skip: the preface, or the rest of a payload.
	skip int
}

// scan calls its callback with the type and the stream of each frame whose header ends in p.
func (f *frames) scan(p []byte, told func(kind byte, stream uint32)) {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have == frameHeader {
			f.have, f.skip = 0, int(f.head[0])<<16|int(f.head[1])<<8|int(f.head[2])
			told(f.head[3], binary.BigEndian.Uint32(f.head[5:])&(1<<31-1))
		}
	}
}

// between reports whether the last frame is complete and no other one has begun.
func (f *frames) between() bool { return f.have == 0 && f.skip == 0 }

// limitedConn is the server's side of an HTTP/2 connection. It limits the resets of young streams.
type limitedConn struct {
	net.Conn
	in frames
	// writing protects out, goAwayPending and ended.
	writing sync.Mutex
	out     frames
	// goAwayPending means that a GOAWAY is sent as soon as no frame is partly written. After it was
	// sent, ended is set and goAwaySent is closed.
	goAwayPending, ended bool
	goAwaySent           chan struct{}

	// resets protects the fields below, because both directions count resets.
	resets  sync.Mutex
	allowed *rate.Limiter
	now     func() time.Time
	// last is the newest stream. recent was the newest one at the time since, old the newest one at
	// the time before that. Streams above old are young.
	last, recent, old uint32
	since             time.Time
	exceeded          bool
}

// Keep wraps the server's side of an HTTP/2 connection, so that its client must keep the allowance.
func Keep(conn net.Conn) net.Conn { return newConn(conn) }

func newConn(conn net.Conn) *limitedConn {
	return &limitedConn{
		Conn: conn, in: frames{skip: prefaceBytes}, goAwaySent: make(chan struct{}),
		allowed: rate.NewLimiter(youngResets, youngResetsBurst), now: time.Now,
	}
}

// Read reads from the connection until the client has exceeded its allowance.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.scan(p[:n], c.count)
	if c.isExceeded() {
		c.closeWithGoAway()
		return 0, errRapidReset
	}
	return n, err
}

// Write writes to the connection, and counts the streams that the server resets because of the client.
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
	if c.goAwayPending && c.out.between() {
		c.sendGoAway()
	}
	return n, err
}

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

// closeWithGoAway sends GOAWAY after the present frame of the server, and reads data on its
// way: a close with unread bytes would discard the frame. [goodbye] limits the whole. A client
// that does not read in that time does not get the frame.
func (c *limitedConn) closeWithGoAway() {
	late := time.NewTimer(goodbye)
	defer late.Stop()
	_ = c.SetDeadline(time.Now().Add(goodbye))
	c.writing.Lock()
	c.goAwayPending = true
	if c.out.between() {
		c.sendGoAway()
	}
	c.writing.Unlock()
	select {
	case <-c.goAwaySent:
		_, _ = io.Copy(io.Discard, c.Conn)
	case <-late.C:
	}
}

// sendGoAway writes the GOAWAY as the last frame. The caller holds writing.
func (c *limitedConn) sendGoAway() {
	if c.ended {
		return
	}
	c.ended = true
	_, _ = c.Conn.Write(goAway(c.newest()))
	close(c.goAwaySent)
}

func (c *limitedConn) newest() uint32 {
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
