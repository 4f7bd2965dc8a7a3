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

// consumer processes all records of a namespace under a name, whose position the store keeps. It never receives
// again what it has acknowledged, and everything else in order.
type consumer struct {
	*space
	name string
	// failed means that it received something wrong.
	failed atomic.Bool

	mu   sync.Mutex
	seqs map[string]uint64
	// open are the cursors of records that it has processed and not acknowledged. repeated is the number of them that
	// it received again since the stream began.
	open                   []string
	repeated               int
	processed, redelivered int
}

func newConsumer(s *space, name string) *consumer {
	return &consumer{space: s, name: name, seqs: map[string]uint64{}}
}

func (c *consumer) work() {
	for c.ctx.Err() == nil && !c.failed.Load() {
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
	c.repeated = 0
	for n := 0; err == nil && n < streamEvery; {
		var got *pawlv1.StreamTransitionsResponse
		if got, err = stream.Recv(); err == nil && got.GetRecord() != nil {
			n++
			c.take(got.GetRecord())
			if len(c.open) >= ackEvery && c.repeated == len(c.open) {
				c.acknowledge()
			}
		}
	}
	return err
}

func (c *consumer) take(record *pawlv1.Record) {
	if c.repeated < len(c.open) {
		if want := c.open[c.repeated]; record.GetCursor() != want {
			c.failed.Store(true)
			c.t.Errorf("consumer %s of %s was told record %d of run %s again, out of order: %s instead of %s", c.name, c.space.name, record.GetSeq(), record.GetRunId(), record.GetCursor(), want)
		}
		c.repeated++
		c.redelivered++
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := c.seqs[record.GetRunId()] + 1
	if record.GetSeq() != want {
		c.failed.Store(true)
		c.t.Errorf("consumer %s of %s was told record %d of run %s instead of %d", c.name, c.space.name, record.GetSeq(), record.GetRunId(), want)
	}
	if want == 1 {
		c.noteRun(record.GetRunId())
	}
	c.seqs[record.GetRunId()] = record.GetSeq()
	c.processed++
	c.open = append(c.open, record.GetCursor())
	c.repeated = len(c.open)
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
	c.open, c.repeated = c.open[:0], 0
}

func (c *consumer) seq(run string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seqs[run]
}

func (c *consumer) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("consumer %s of %s: %d records worked on once and in order, %d told again before they were acknowledged", c.name, c.space.name, c.processed, c.redelivered)
}
