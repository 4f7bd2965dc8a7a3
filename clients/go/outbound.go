package pawl

import (
	"runtime"
	"sync"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const (
	// maxBatch bounds the requests of one message, as the contract does.
	maxTogether = 1024
	// queuedBytes is about how much may wait to be sent; who has more waits.
	queuedBytes = 4 << 20
	// elementBytes is at most what a request takes in another one besides itself.
	elementBytes = 8
)

// outbound is the requests of one stream on their way out. What waits goes in one
// message, so that the turns that one sync of the sidecar let go on cost one.
type outbound struct {
	// limit is the largest message that the server takes, bytes.
	limit int64

	mu     sync.Mutex
	queue  []outgoing
	queued int64
	over   bool
	// changed: there is something to send, or room, or it is over.
	changed *sync.Cond
}

// outgoing is a request and its size.
type outgoing struct {
	req  *pawlv1.WorkRequest
	size int64
}

func newOutbound(limit int64) *outbound {
	o := &outbound{limit: limit}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// add queues a request, in order, and waits while too much is queued.
func (o *outbound) add(req *pawlv1.WorkRequest) error {
	item := outgoing{req, int64(proto.Size(req)) + elementBytes}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.queued > queuedBytes && !o.over {
		o.changed.Wait()
	}
	if o.over {
		return errSessionOver
	}
	o.queue = append(o.queue, item)
	o.queued += item.size
	o.changed.Broadcast()
	return nil
}

// end lets everybody go; nothing is sent any more.
func (o *outbound) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	o.changed.Broadcast()
}

// run sends until the end. What an error of the stream means, its reader is told.
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

// next waits for something to send and puts what there is into one message; nil: it is
// over.
func (o *outbound) next() *pawlv1.WorkRequest {
	o.mu.Lock()
	for len(o.queue) == 0 && !o.over {
		o.changed.Wait()
	}
	o.mu.Unlock()
	// Others end at the same moment: they come first.
	runtime.Gosched()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
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
