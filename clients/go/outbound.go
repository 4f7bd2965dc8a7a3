package pawl

import (
	"runtime"
	"sync"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const (
	// maxTogether bounds the number of requests in one message. The limit is part of the API.
	maxTogether = 1024
	// queuedBytes bounds the size of the queue, in bytes. If more bytes are queued, add blocks.
	queuedBytes = 4 << 20
	// elementBytes is the maximum number of bytes that a request needs in a list in addition to its own
	// size.
	elementBytes = 8
)

// outbound queues the requests of one stream. It sends as many queued requests in one message as
// maxTogether and limit allow. So if one sync of the sidecar releases several turns, their requests need
// few messages.
type outbound struct {
	// limit is the largest message that the server accepts, in bytes.
	limit int64

	mu     sync.Mutex
	queue  []outgoing
	queued int64
	closed bool
	// changed is signalled when queue, queued or closed changes.
	changed *sync.Cond
}

// outgoing is a request and the number of bytes that it needs in a list.
type outgoing struct {
	req  *pawlv1.WorkRequest
	size int64
}

func newOutbound(limit int64) *outbound {
	o := &outbound{limit: limit}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// add appends a request to the queue. It blocks while the queue is full.
func (o *outbound) add(req *pawlv1.WorkRequest) error {
	item := outgoing{req, int64(proto.Size(req)) + elementBytes}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.queued > queuedBytes && !o.closed {
		o.changed.Wait()
	}
	if o.closed {
		return errSessionOver
	}
	o.queue = append(o.queue, item)
	o.queued += item.size
	o.changed.Broadcast()
	return nil
}

// end stops sending and unblocks all waiting calls.
func (o *outbound) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.changed.Broadcast()
}

// run sends requests until end is called or the stream fails. The goroutine that reads the stream
// returns the stream's error.
func (o *outbound) run(stream workClient) {
	for {
		message := o.next()
		if message == nil {
			return
		}
		if stream.Send(message) != nil {
			o.end()
			return
		}
	}
}

// next waits for a request and puts the queued requests into one message, as many as maxTogether and
// limit allow. The first request is always in it. After end was called, next returns nil, and the queued
// requests are not sent.
func (o *outbound) next() *pawlv1.WorkRequest {
	o.mu.Lock()
	for len(o.queue) == 0 && !o.closed {
		o.changed.Wait()
	}
	o.mu.Unlock()
	// Other turns may be about to add requests. Yielding lets their requests join this message.
	runtime.Gosched()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	n, size := 1, o.queue[0].size
	for n < min(len(o.queue), maxTogether) && size+o.queue[n].size <= o.limit {
		size += o.queue[n].size
		n++
	}
	message := o.queue[0].req
	for _, item := range o.queue[1:n] {
		message.More = append(message.More, item.req)
	}
	o.queue, o.queued = o.queue[n:], o.queued-size
	o.changed.Broadcast()
	return message
}
