//go:build sim

package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// reader follows all records of a node, over its crashes, and must get each of them once
// and in order.
type reader struct {
	world *world
	node  *node
	name  string
	// snapshots means that the reader requests the state of the run at each record.
	snapshots bool
	// slow means that the reader pauses after each page.
	slow bool
	// named means that the sidecar stores the reader's position. After a crash, the reader continues
	// after its last acknowledgement and gets the records after it again.
	named bool

	// cursor is the position after the last page.
	cursor runtime.Cursor
	// got are the received records in the order of the journal, each with its cursor.
	got []read
	at  runtime.Cursor
	// acked is the last position whose acknowledgement was answered.
	acked runtime.Cursor
	// resumed means that the next record is the first one of a watch.
	resumed bool
}

// read is a record that a reader received.
type read struct {
	place
	at runtime.Cursor
}

// place is a record in the journal.
type place struct {
	run string
	seq uint64
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

// follow reads from one process until the process ends.
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
	if p.house.Health() != nil || errors.Is(err, machine.ErrIndeterminate) {
		return
	}
	if away(err) {
		return // the error says that the reader must try again later
	}
	if r.named && full(err) {
		return // the reader's position cannot be stored without free space
	}
	r.world.fail("readers read on", "%s of %s behind %s: %v", r.name, r.node.name, r.cursor, err)
}

func (r *reader) read(ctx context.Context, p *process) error {
	request := streams.Request{Call: operator, Follow: true, AfterCursor: r.place(), Snapshots: r.snapshots, Filter: streams.Filter{Kinds: allKinds}}
	if r.named {
		request.Consumer, request.AfterCursor, r.resumed = r.name, "", true
	}
	w, err := p.house.Watch(ctx, request)
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
			r.world.answerable(ctx, p, &page.Records[i])
		}
		r.cursor = page.Cursor
		if r.slow && !r.world.healing {
			time.Sleep(700 * time.Millisecond)
		}
		if r.named && len(page.Records)%2 == 1 {
			r.world.people.acknowledge(r)
		}
	}
}

// place returns the position at which the reader continues. "" means the beginning.
func (r *reader) place() string {
	if r.cursor.Position == 0 {
		return ""
	}
	return r.cursor.String()
}

// answerable checks that a party that received a record never reads an older state of its run.
func (w *world) answerable(ctx context.Context, p *process, row *runtime.RecordRow) {
	s, err := p.house.StateAt(ctx, runtime.RunRef{Call: operator, RunID: row.RunID}, 0)
	if err == nil && s.Seq < row.Record.Seq {
		w.fail("what is shown is answerable", "record %d of %s was shown, and then the run at %d", row.Record.Seq, row.RunID, s.Seq)
	}
}

// take records a received record, which must come after the one before.
func (r *reader) take(row *runtime.RecordRow) {
	if r.resumed {
		r.resume(row.Cursor)
	}
	if !before(r.at, row.Cursor) {
		r.world.fail("readers read in order", "%s of %s: %v after %v", r.name, r.node.name, row.Cursor, r.at)
	}
	r.at = row.Cursor
	r.got = append(r.got, read{place: place{run: row.RunID, seq: row.Record.Seq}, at: row.Cursor})
	if r.snapshots && (row.Snapshot == nil || row.Snapshot.State.Seq < row.Record.Seq) {
		r.world.fail("a snapshot is of its record", "%s/%d", row.RunID, row.Record.Seq)
	}
}

func before(a, b runtime.Cursor) bool {
	return a.Position < b.Position || a.Position == b.Position && a.Index < b.Index
}

// resume removes the records after a position, because they are sent again. Acknowledged records must
// not be among them.
func (r *reader) resume(from runtime.Cursor) {
	if !before(r.acked, from) {
		r.world.fail("what was acknowledged is not told again", "%s of %s has acknowledged %v and is told %v", r.name, r.node.name, r.acked, from)
	}
	for len(r.got) > 0 && !before(r.got[len(r.got)-1].at, from) {
		r.got = r.got[:len(r.got)-1]
	}
	r.resumed, r.at = false, runtime.Cursor{}
	if len(r.got) > 0 {
		r.at = r.got[len(r.got)-1].at
	}
}

// complete compares the received records with the journal. Records of deleted runs may be missing.
func (r *reader) complete(o *oracle) {
	got := r.got
	for i := range o.journal {
		e := &o.journal[i]
		for j := range e.Records {
			switch want := (place{run: e.RunID, seq: e.Records[j].Seq}); {
			case len(got) > 0 && got[0].place == want:
				got = got[1:]
			case !o.deleting[e.RunID]:
				r.world.fail("readers read everything", "%s of %s has no record %d of %s", r.name, r.node.name, want.seq, want.run)
				return
			}
		}
	}
	if len(got) > 0 {
		r.world.fail("readers read everything", "%s of %s has record %d of %s, which is nowhere", r.name, r.node.name, got[0].seq, got[0].run)
	}
}

// allKinds are all kinds of records.
var allKinds = func() (kinds []machine.RecordKind) {
	for k := machine.RecTransition; k <= machine.RecCompensationStarted; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}()
