//go:build sim

package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/watch"
)

// reader follows all records of a node, over its crashes, and must get each of them once
// and in order.
type reader struct {
	world *world
	node  *node
	name  string
	// snapshots: it asks for the run as it was at each record.
	snapshots bool
	// slow: it takes its time with each page.
	slow bool

	cursor string
	// got are the records, as "RUN/SEQ", in the order of the journal.
	got []place
	at  runtime.Cursor
}

// place is a record in the journal.
type place struct {
	run string
	seq uint64
}

func newReader(w *world, n *node, name string, i int) *reader {
	return &reader{world: w, node: n, name: name, snapshots: i == 0, slow: i == 1}
}

// run reads until the simulation is over.
func (r *reader) run() {
	for {
		select {
		case <-r.world.over:
			return
		default:
		}
		if p := r.node.process(); p != nil {
			r.follow(p)
		}
		select {
		case <-r.world.over:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// follow reads from one process until it dies.
func (r *reader) follow(p *process) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	go func() {
		select {
		case <-r.world.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := r.read(ctx, p)
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	if p.house.Health() != nil {
		return
	}
	r.world.fail("readers read on", "%s of %s behind %s: %v", r.name, r.node.name, r.cursor, err)
}

func (r *reader) read(ctx context.Context, p *process) error {
	w, err := p.house.Watch(ctx, watch.Request{
		Call: operator, Follow: true, AfterCursor: r.cursor, Snapshots: r.snapshots, Filter: watch.Filter{Kinds: allKinds},
	})
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		page, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i := range page.Records {
			r.take(&page.Records[i])
		}
		r.cursor = page.Cursor.String()
		if r.slow && !r.world.healing {
			time.Sleep(700 * time.Millisecond)
		}
	}
}

// take notes a record, which must be behind the one before.
func (r *reader) take(row *runtime.RecordRow) {
	if c := row.Cursor; c.Position < r.at.Position || c.Position == r.at.Position && c.Index <= r.at.Index {
		r.world.fail("readers read in order", "%s of %s: %v after %v", r.name, r.node.name, c, r.at)
	}
	r.at = row.Cursor
	r.got = append(r.got, place{run: row.RunID, seq: row.Record.Seq})
	if r.snapshots && (row.Snapshot == nil || row.Snapshot.State.Seq < row.Record.Seq) {
		r.world.fail("a snapshot is of its record", "%s/%d", row.RunID, row.Record.Seq)
	}
}

// complete compares what was read with the journal.
func (r *reader) complete(journal []machine.Entry) {
	var want []place
	for i := range journal {
		for j := range journal[i].Records {
			want = append(want, place{run: journal[i].RunID, seq: journal[i].Records[j].Seq})
		}
	}
	if !slices.Equal(r.got, want) {
		r.world.fail("readers read everything", "%s of %s has %d of %d records", r.name, r.node.name, len(r.got), len(want))
	}
}

// allKinds are all kinds of records.
var allKinds = func() (kinds []machine.RecordKind) {
	for k := machine.RecTransition; k <= machine.RecNoted; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}()
