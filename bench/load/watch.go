package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/bench/load/stat"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// watchJob asks a watch process to follow everything from the beginning.
type watchJob struct {
	Target      string `json:"target"`
	Connections int    `json:"connections"`
	Watchers    int    `json:"watchers"`
	// Read everything; else open the streams and never read.
	Read bool `json:"read"`
	// Ended follows the ends of runs instead of transitions and ends.
	Ended bool `json:"ended"`
}

// watchEnd is a later request of a watch process: read until every watcher has Expect
// records, then answer.
type watchEnd struct {
	Expect uint64 `json:"expect"`
	// Fill asks instead for an answer once the watchers take nothing more.
	Fill bool `json:"fill"`
}

// watchResult is what the readers saw.
type watchResult struct {
	// Records is what each reader got; Connected answers the first request.
	Records   uint64 `json:"records"`
	Connected bool   `json:"connected"`
	// LagP99ms is the time from a record's own stamp, which is put on before the
	// commit, to its arrival.
	LagP99ms float64 `json:"lag_p99_ms"`
	// FirstAt and LastAt are the stamps of the first and last record, Unix
	// nanoseconds.
	FirstAt int64 `json:"first_at"`
	LastAt  int64 `json:"last_at"`
}

// watchChild serves a watchJob and then what it is asked of it.
func watchChild(ctx context.Context, _ ChildSpec, w *wire) error {
	var group *watchGroup
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		if group == nil {
			var job watchJob
			if err := json.Unmarshal(raw, &job); err != nil {
				return nil, fmt.Errorf("watch job: %w", err)
			}
			var err error
			group, err = openWatchers(ctx, job)
			return watchResult{Connected: true}, err
		}
		var end watchEnd
		if err := json.Unmarshal(raw, &end); err != nil {
			return nil, fmt.Errorf("watch end: %w", err)
		}
		if end.Fill {
			return watchResult{}, awaitFull(ctx, group.taken.Load, func() { pause(ctx, quietTime, nil) })
		}
		return group.finish(ctx, end.Expect)
	})
}

// watchGroup is all watchers of one process.
type watchGroup struct {
	read     bool
	watchers []*watcher
	// taken are the bytes that have arrived on all connections.
	taken atomic.Int64
}

// quietTime is how long nothing arrives at streams whose buffers are full.
const quietTime = 300 * time.Millisecond

// awaitFull waits until bytes have arrived, and then until no more arrive between two looks. A stream
// without a reader has then filled every buffer.
func awaitFull(ctx context.Context, taken func() int64, rest func()) error {
	first := taken()
	for before := first; ctx.Err() == nil; {
		rest()
		now := taken()
		if now == before && now > first {
			return nil
		}
		before = now
	}
	return ctx.Err()
}

// countedConn counts what is read of a connection.
type countedConn struct {
	net.Conn
	taken *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.taken.Add(int64(n))
	return n, err
}

// dial connects and counts what arrives.
func (g *watchGroup) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	return countedConn{conn, &g.taken}, err
}

func openWatchers(ctx context.Context, job watchJob) (*watchGroup, error) {
	g := &watchGroup{read: job.Read}
	conns, closeAll, err := dial(job.Target, job.Connections, grpc.WithContextDialer(g.dial))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, closeAll)
	for i := range job.Watchers {
		stream, err := openStream(ctx, conns[i%len(conns)], job.Ended)
		if err != nil {
			return nil, err
		}
		wt := newWatcher(stream)
		g.watchers = append(g.watchers, wt)
		if job.Read {
			go wt.readAll()
		}
	}
	return g, nil
}

func openStream(ctx context.Context, conn *grpc.ClientConn, ended bool) (recordStream, error) {
	request := &pawlv1.StreamTransitionsRequest{Follow: true}
	if ended {
		request.Kinds = []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_ENDED}
	}
	stream, err := pawlv1.NewRunServiceClient(conn).StreamTransitions(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return stream, nil
}

// finish waits until every reader has seen as many records.
func (g *watchGroup) finish(ctx context.Context, expect uint64) (watchResult, error) {
	if !g.read {
		return watchResult{}, nil
	}
	result := watchResult{Records: expect}
	var lag stat.Histogram
	for _, wt := range g.watchers {
		wt.until(expect)
		select {
		case <-wt.done:
		case <-ctx.Done():
			return watchResult{}, ctx.Err()
		}
		if err := wt.report(&result, &lag); err != nil {
			return watchResult{}, err
		}
	}
	result.LagP99ms = millis(lag.Quantile(0.99))
	return result, nil
}

// report adds what one reader saw.
func (wt *watcher) report(result *watchResult, lag *stat.Histogram) error {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	lag.Merge(&wt.lag)
	result.FirstAt, result.LastAt = wt.firstAt, wt.lastAt
	return wt.err
}

type recordStream interface {
	Recv() (*pawlv1.StreamTransitionsResponse, error)
}

// watcher is one stream that is read; it proves that nothing is missing.
type watcher struct {
	stream recordStream
	// done is closed when the stream has given as much as until asked for, or
	// has failed.
	done chan struct{}

	// mu guards all below.
	mu      sync.Mutex
	closed  bool
	err     error
	last    map[string]uint64
	lag     stat.Histogram
	firstAt int64
	lastAt  int64
	records uint64
	// expect is how many records end the watch; until it is known, no number does.
	expect uint64
}

func newWatcher(stream recordStream) *watcher {
	return &watcher{stream: stream, done: make(chan struct{}), last: map[string]uint64{}, expect: math.MaxUint64}
}

// until sets how many records end the watch.
func (wt *watcher) until(expect uint64) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	wt.expect = expect
	wt.settle()
}

// settle closes done when there is nothing more to wait for; mu is held.
func (wt *watcher) settle() {
	if !wt.closed && (wt.err != nil || wt.records >= wt.expect) {
		wt.closed = true
		close(wt.done)
	}
}

// readAll reads until the watch ends.
func (wt *watcher) readAll() {
	for {
		item, err := wt.stream.Recv()
		if !wt.countRecord(item.GetRecord(), err) {
			return
		}
	}
}

// countRecord counts what was received and reports whether to go on.
func (wt *watcher) countRecord(record *pawlv1.Record, err error) bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if err == nil && record != nil {
		err = wt.take(record)
	}
	if err != nil && wt.err == nil {
		wt.err = fmt.Errorf("watcher, after %d records: %w", wt.records, err)
	}
	wt.settle()
	return !wt.closed
}

// take checks one record against the one before it in its run.
func (wt *watcher) take(record *pawlv1.Record) error {
	at := record.GetAt().AsTime()
	wt.lag.Add(time.Since(at))
	wt.lastAt = at.UnixNano()
	if wt.firstAt == 0 {
		wt.firstAt = wt.lastAt
	}
	wt.records++
	run := record.GetRunId()
	if record.GetPrevSeq() != wt.last[run] {
		return fmt.Errorf("run %s: record %d follows %d, but the one before was %d",
			run, record.GetSeq(), record.GetPrevSeq(), wt.last[run])
	}
	wt.last[run] = record.GetSeq()
	return nil
}
