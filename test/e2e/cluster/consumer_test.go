package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

const (
	// ackEvery is after how many records a consumer says how far it has worked.
	ackEvery = 100
	// streamEvery is after how many of them it goes on by another stream, as one that was killed.
	streamEvery = 1000
)

// consumer works on all records of a namespace under a name, whose place the store keeps. What it has acknowledged
// it is never told again; all else in order from there.
type consumer struct {
	*space
	name string
	// lost: what it was told was wrong.
	lost atomic.Bool

	mu   sync.Mutex
	seqs map[string]uint64
	// open are the cursors of what it has worked on and not acknowledged; again is how many of them
	// were told again since the stream began.
	open           []string
	again          int
	worked, retold int
}

func newConsumer(s *space, name string) *consumer {
	return &consumer{space: s, name: name, seqs: map[string]uint64{}}
}

func (c *consumer) work() {
	for c.ctx.Err() == nil && !c.lost.Load() {
		if c.stream() != nil && c.ctx.Err() == nil {
			c.read.pause()
		}
	}
}

// stream works until the stream ends, or on so many records. Its node is any.
func (c *consumer) stream() error {
	ctx, leave := context.WithCancel(c.ctx)
	defer leave()
	stream, err := c.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Follow: true, Consumer: c.name, Kinds: play.EveryKind()})
	c.again = 0
	for n := 0; err == nil && n < streamEvery; {
		var got *pawlv1.StreamTransitionsResponse
		if got, err = stream.Recv(); err == nil && got.GetRecord() != nil {
			n++
			c.take(got.GetRecord())
			if len(c.open) >= ackEvery && c.again == len(c.open) {
				c.acknowledge()
			}
		}
	}
	return err
}

func (c *consumer) take(record *pawlv1.Record) {
	if c.again < len(c.open) {
		if want := c.open[c.again]; record.GetCursor() != want {
			c.lost.Store(true)
			c.t.Errorf("consumer %s of %s was told record %d of run %s again, out of order: %s instead of %s", c.name, c.space.name, record.GetSeq(), record.GetRunId(), record.GetCursor(), want)
		}
		c.again++
		c.retold++
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := c.seqs[record.GetRunId()] + 1
	if record.GetSeq() != want {
		c.lost.Store(true)
		c.t.Errorf("consumer %s of %s was told record %d of run %s instead of %d", c.name, c.space.name, record.GetSeq(), record.GetRunId(), want)
	}
	if want == 1 {
		c.met(record.GetRunId())
	}
	c.seqs[record.GetRunId()] = record.GetSeq()
	c.worked++
	c.open = append(c.open, record.GetCursor())
	c.again = len(c.open)
}

// acknowledge returns when the place is stored.
func (c *consumer) acknowledge() {
	deliveries := pawlv1.NewDeliveryServiceClient(c.conn)
	_, err := play.Retry(c.ctx, func(ctx context.Context) (*pawlv1.AckConsumerResponse, error) {
		return deliveries.AckConsumer(ctx, &pawlv1.AckConsumerRequest{Consumer: c.name, Cursor: c.open[len(c.open)-1]})
	})
	if err != nil && c.ctx.Err() == nil {
		c.t.Errorf("consumer %s of %s: %v", c.name, c.space.name, err)
	}
	c.open, c.again = c.open[:0], 0
}

func (c *consumer) seq(run string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seqs[run]
}

func (c *consumer) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("consumer %s of %s: %d records worked on once and in order, %d told again before they were acknowledged", c.name, c.space.name, c.worked, c.retold)
}
