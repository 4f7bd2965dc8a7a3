package streams

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// ErrEnded is returned at the end of a watch: the followed run has ended, a watch that does not follow has read all records
// that existed when it began, or the server stops.
var ErrEnded = errors.New("the watch has ended")

// Request is the argument of [Service.Watch].
type Request struct {
	runtime.Call
	Filter Filter
	// AfterSeq makes a watch of one run begin after this record.
	AfterSeq uint64
	// AfterCursor makes the watch begin after the cursor of a record or heartbeat. "" means that it begins with the
	// first record.
	AfterCursor string
	// FromNow makes the watch begin after the newest record. Its first page is a heartbeat with that position. For a
	// consumer that already has a position it is ignored.
	FromNow bool
	// Follow makes the watch wait for records that are committed later.
	Follow bool
	// Snapshots adds to each record the state of the run after the record's commit, with its artifacts.
	Snapshots bool
	// Statuses adds to each record the status of the run after the record's commit. It is only for a watch of one run.
	Statuses bool
	// Output adds the output of turns in progress. It is possible only for a watch of one run that follows. OutputAfter
	// is the position up to which the caller has already read the output.
	Output      bool
	OutputAfter runtime.OutputPosition
	// Assignments adds a page when an executor receives the open turn of the run, because no record shows this. It is
	// possible only for a watch of one run.
	Assignments bool
	// Consumer is the name of the consumer that watches all runs, or "" if there is none. Without AfterCursor the watch
	// begins after the position that the consumer has acknowledged. A newer watch of the same consumer ends an older
	// one.
	Consumer string
}

// Page is the result of [Watch.Next]. It contains records, turn output or an assigned turn, or it is a heartbeat.
type Page struct {
	Records []runtime.RecordRow
	// Cursor is the position up to which the watch has read, including records that did not match the filter.
	Cursor runtime.Cursor
	// Heartbeat means that the page is empty because no record matched the filter for a while, or because it is the first
	// page of a watch with FromNow.
	Heartbeat bool
	// Output contains pieces of turn output, if the caller asked for it. A page with output has no records.
	Output []runtime.OutputChunk
	// AssignedTurn is the seq of the turn that an executor has received, if the caller asked for this. Otherwise it is
	// 0. A page with an assigned turn has no records.
	AssignedTurn uint64
}

// Watch reads records in order, at the speed at which its caller calls Next. Unread records stay in the store, so a
// slow caller receives all records late and does not block other code. Not safe for concurrent use.
type Watch struct {
	r      *Service
	key    runtime.RunKey
	follow bool
	filter *recordFilter
	// at is the position in the journal up to which the watch has read. In a watch of one run, seq is the seq of the
	// last record that was read. until is where a watch that does not follow ends: a position in the journal or, in a
	// watch of one run, a seq.
	at    runtime.Cursor
	seq   uint64
	until uint64
	// sub is the subscription that wakes the watch. It is nil if the watch does not follow.
	sub       *subscription
	heartbeat <-chan time.Time
	// lastPageAt is the time of the last page, as a value of Clock.Elapsed.
	lastPageAt time.Duration
	ended      bool
	// pageBytes is the part of the shared memory budget that the last page uses, in bytes.
	pageBytes int64
	// greet means that the first page must be a heartbeat with the start position.
	greet bool
	// output means that the caller asked for turn output. outputAfter is the position up to which the output was read.
	output      bool
	outputAfter runtime.OutputPosition
	// assignments means that the caller asked for assigned turns. reportedTurn is the last turn that was reported.
	assignments  bool
	reportedTurn uint64
	// reading is set if the watch belongs to a consumer.
	reading ConsumerWatch
}

// Watch opens a stream of records of one run or of all runs of a namespace. The caller must close it.
//
// Errors: NOT_FOUND for a run; OUT_OF_RANGE CURSOR_FOREIGN or CURSOR_AHEAD for a cursor that does not belong to this
// journal; SEQ_AHEAD for a record that does not exist yet; for a consumer CONSUMER_TAKEN and MAX_CONSUMERS.
func (r *Service) Watch(ctx context.Context, req Request) (*Watch, error) {
	w := &Watch{r: r, follow: req.Follow, output: req.Output && req.Follow, outputAfter: req.OutputAfter, assignments: req.Assignments}
	var err error
	if req.Filter.RunID != "" {
		w.key, err = r.cfg.Engine.FindReadable(runtime.RunRef{Call: req.Call, RunID: req.Filter.RunID})
	} else {
		w.key.Namespace, err = r.cfg.Engine.Admit(req.Call, policy.RunsRead|policy.RunsWrite)
	}
	if err != nil {
		return nil, err
	}
	known := false
	if req.Consumer != "" {
		if known, err = r.resume(ctx, w.key.Namespace, &req); err != nil {
			return nil, err
		}
	}
	w.filter = newRecordFilter(r, w.key.Namespace, req.Filter, req.Snapshots)
	w.filter.statuses = req.Statuses
	if req.Follow {
		w.sub = r.hub.subscribe(w.key)
	}
	err = w.begin(ctx, &req)
	if err == nil && req.Consumer != "" {
		w.reading, err = r.cfg.Readers.Enter(ctx, w.key.Namespace, req.Consumer, req.Principal.Name(), w.at, known)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	w.lastPageAt = r.cfg.Clock.Elapsed()
	return w, nil
}

// resume makes the watch of a known consumer begin after its acknowledged position. A cursor in the request takes
// precedence.
func (r *Service) resume(ctx context.Context, ns uint32, req *Request) (known bool, err error) {
	at, known, err := r.cfg.Readers.Resume(ctx, ns, req.Consumer, req.Principal.Name())
	if err != nil || !known {
		return false, err
	}
	req.FromNow = false
	if req.AfterCursor == "" {
		req.AfterCursor = at.String()
	}
	return true, nil
}

// Close ends the watch.
func (w *Watch) Close() {
	w.forget()
	if w.sub != nil {
		w.r.hub.unsubscribe(w.sub)
		w.sub = nil
	}
	if w.reading != nil {
		w.reading.Close()
	}
}

// begin determines where the watch begins and, if it does not follow, where it ends.
func (w *Watch) begin(ctx context.Context, req *Request) error {
	w.at.Epoch = w.r.cfg.Store.Epoch()
	tail, err := w.r.cfg.Store.Tail(ctx, w.key.Namespace)
	if err != nil {
		return fmt.Errorf("streams: tail of the journal: %w", err)
	}
	if req.AfterCursor != "" {
		if w.at, err = validate.ParseCursor(req.AfterCursor); err != nil {
			return err
		}
		if err := w.at.Resumable(w.r.cfg.Store.Epoch(), tail); err != nil {
			return err
		}
	}
	if req.FromNow {
		w.at.Position, w.at.Index, w.greet = tail, validate.WholeEntry, true
	}
	w.until = tail
	if w.key.ID == "" {
		return nil
	}
	return w.beginRun(ctx, req)
}

// beginRun sets the position at which a watch of one run begins, from after_seq or from the cursor of the request.
func (w *Watch) beginRun(ctx context.Context, req *Request) error {
	head, err := w.r.cfg.Engine.Head(ctx, w.key)
	if err != nil {
		return err
	}
	w.until = head.Seq
	w.seq = req.AfterSeq
	if req.AfterSeq > head.Seq {
		return &machine.Error{
			Code: machine.CodeOutOfRange, Reason: "SEQ_AHEAD", Field: "after_seq",
			Message: fmt.Sprintf("the run's last record is %d", head.Seq), Limit: toInt64(head.Seq), Got: toInt64(req.AfterSeq),
		}
	}
	if w.at.Position == 0 {
		return nil
	}
	seq, err := w.seqBehind(ctx, head.Seq)
	w.seq = max(w.seq, seq)
	return err
}

// seqBehind returns the last record of the run at or before the cursor of the watch. It uses binary search, because
// later records have greater cursors.
func (w *Watch) seqBehind(ctx context.Context, last uint64) (uint64, error) {
	var failed error
	n := sort.Search(int(last), func(i int) bool {
		entry, err := w.r.cfg.Store.Entry(ctx, w.key.Namespace, w.key.ID, uint64(i)+1)
		if err != nil {
			failed = err
			return true
		}
		return entry.Cursor > w.at.Position ||
			entry.Cursor == w.at.Position && uint64(i)+1-entry.First > uint64(w.at.Index)
	})
	if failed != nil {
		return 0, fmt.Errorf("streams: read run %s: %w", w.key.ID, failed)
	}
	return uint64(n), nil
}

// Next waits for the next page. If there is none for the time Config.Heartbeat, it returns a heartbeat. Next frees the
// memory of the previous page.
//
// Errors: [ErrEnded] ends the watch. CONSUMER_REPLACED and CONSUMER_NOT_FOUND end the watch of a consumer. All other
// errors come from ctx or the store, and Next may be called again after them.
func (w *Watch) Next(ctx context.Context) (Page, error) {
	w.forget()
	if err := w.endReason(); err != nil {
		return Page{}, err
	}
	if w.greet {
		w.greet = false
		return w.page(nil), nil
	}
	for {
		entries, err := w.read(ctx)
		if err != nil {
			return Page{}, err
		}
		// The turn output arrived before the records of these entries, so it must be delivered first. The next call
		// reads the entries again.
		if chunks := w.chunks(); len(chunks) > 0 {
			return Page{Output: chunks, Cursor: w.at}, nil
		}
		rows, err := w.rows(ctx, entries)
		switch {
		case err != nil:
			return Page{}, err
		case len(rows) > 0:
			return w.page(rows), nil
		}
		if turn := w.newlyAssignedTurn(); turn != 0 {
			return Page{AssignedTurn: turn, Cursor: w.at}, nil
		}
		switch {
		case w.ended:
			return Page{}, ErrEnded
		case w.silent():
			return w.page(nil), nil
		case len(entries) > 0:
			continue
		}
		if err := w.wait(ctx); err != nil {
			return Page{}, err
		}
	}
}

// maxChunks bounds the number of pieces of turn output in one page.
const maxChunks = 16

// chunks returns the pieces of turn output that come before the next record.
func (w *Watch) chunks() []runtime.OutputChunk {
	var chunks []runtime.OutputChunk
	for len(chunks) < maxChunks {
		chunk, ok := w.chunk()
		if !ok {
			break
		}
		w.outputAfter = runtime.OutputPosition{Turn: chunk.Turn, Delivery: chunk.Delivery, Offset: chunk.Offset + int64(len(chunk.Text))}
		chunks = append(chunks, chunk)
	}
	return chunks
}

// chunk returns the next piece of turn output. It returns false if there is none, or if a record comes before it.
func (w *Watch) chunk() (chunk runtime.OutputChunk, ok bool) {
	if !w.output || w.key.ID == "" || w.r.cfg.Live == nil {
		return chunk, false
	}
	chunk, ok = w.r.cfg.Live.Output(w.key, w.outputAfter)
	return chunk, ok && (chunk.Behind <= w.seq || w.ended)
}

// newlyAssignedTurn returns the turn that an executor has received since the last call, or 0. The turn is returned only
// after the watch has read the record that opened it.
func (w *Watch) newlyAssignedTurn() uint64 {
	if !w.assignments || w.key.ID == "" || w.r.cfg.Live == nil {
		return 0
	}
	turn := w.r.cfg.Live.AssignedTurn(w.key)
	if turn == w.reportedTurn || turn > w.seq {
		return 0
	}
	w.reportedTurn = turn
	return turn
}

func (w *Watch) page(rows []runtime.RecordRow) Page {
	w.lastPageAt = w.r.cfg.Clock.Elapsed()
	return Page{Records: rows, Cursor: w.at, Heartbeat: len(rows) == 0}
}

func (w *Watch) silent() bool {
	return w.follow && w.r.cfg.Clock.Elapsed()-w.lastPageAt >= w.r.cfg.Heartbeat
}

// read returns entries after the position of the watch. The first of them may already be delivered in part. It returns none
// if the watch has read all of them.
func (w *Watch) read(ctx context.Context) ([]machine.Entry, error) {
	if w.ended {
		return nil, nil
	}
	if w.key.ID != "" {
		return w.readRun(ctx)
	}
	if w.sub != nil {
		w.sub.at.Store(w.at.Position)
	}
	after := w.at.Position
	if after > 0 && w.at.Index != validate.WholeEntry {
		after--
	}
	if !w.follow && w.at.Position >= w.until && w.at.Index == validate.WholeEntry || !w.follow && w.until == 0 {
		w.ended = true
		return nil, nil
	}
	page := w.mayRead()
	if w.sub != nil {
		if entries := w.sub.feed.recent.after(after, page); len(entries) > 0 {
			return entries, nil
		}
	}
	entries, scanned, err := w.r.cfg.Store.Journal(ctx, w.key.Namespace, after, page)
	if err != nil {
		return nil, fmt.Errorf("streams: read the journal after %d: %w", after, err)
	}
	if len(entries) == 0 {
		w.ended = !w.follow
		if scanned > w.at.Position {
			w.at.Position, w.at.Index = scanned, validate.WholeEntry
		}
	}
	return entries, nil
}

// readRun returns entries of one run after the position of the watch. It sets the field ended if no further entries
// can follow.
func (w *Watch) readRun(ctx context.Context) ([]machine.Entry, error) {
	head, err := w.r.cfg.Engine.Head(ctx, w.key)
	if err != nil {
		return nil, err
	}
	if w.seq >= head.Seq || !w.follow && w.seq >= w.until {
		w.ended = !w.follow || head.Status.Terminal()
		return nil, nil
	}
	entries, err := w.r.cfg.Store.Entries(ctx, w.key.Namespace, w.key.ID, w.seq+1, w.mayRead())
	if err != nil {
		return nil, fmt.Errorf("streams: read run %s from record %d: %w", w.key.ID, w.seq+1, err)
	}
	return entries, nil
}

// rows returns the matching records of entries and moves the position of the watch behind them. If an error occurs
// after some records, rows returns these records, and the next call returns the error.
func (w *Watch) rows(ctx context.Context, entries []machine.Entry) ([]runtime.RecordRow, error) {
	var rows []runtime.RecordRow
	held := int64(0)
	for i := range entries {
		entry := &entries[i]
		if len(rows) > 0 && held >= w.pageBytes || i > 0 && w.interrupted() {
			break // the other entries will be read again
		}
		if w.key.ID == "" && !w.follow && entry.Cursor > w.until {
			w.ended = true
			break
		}
		seen, err := w.filter.entry(ctx, entry)
		if w.key.ID == "" && machine.IsDeleted(err) {
			// The run was deleted after its entry was read, so it is now a gap in the journal.
			seen, err = nil, nil
		}
		if machine.IsErased(err) && !entry.Erased {
			break // the run was erased after its entry was read, so the entry must be read again
		}
		if err != nil && len(rows) > 0 {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		for _, row := range seen {
			if w.isUndelivered(entry, row.Record.Seq) {
				row.Cursor = runtime.Cursor{Epoch: w.at.Epoch, Position: entry.Cursor, Index: uint16(row.Record.Seq - entry.First)}
				rows, held = append(rows, row), held+rowBytes(&row)
			}
		}
		w.at.Position, w.at.Index = entry.Cursor, validate.WholeEntry
		w.seq = entry.First + uint64(len(entry.Records)) - 1
	}
	return rows, nil
}

// interrupted reports whether a piece of turn output must be delivered before the next entry.
func (w *Watch) interrupted() bool {
	_, now := w.chunk()
	return now
}

// isUndelivered reports whether the record comes after the position of the watch, so that the caller has not received it yet.
func (w *Watch) isUndelivered(entry *machine.Entry, seq uint64) bool {
	if w.key.ID != "" {
		return seq > w.seq && (w.follow || seq <= w.until)
	}
	return entry.Cursor != w.at.Position || seq-entry.First > uint64(w.at.Index)
}

// wait blocks until there may be something new to read, until the next heartbeat is due, or until ctx ends.
func (w *Watch) wait(ctx context.Context) error {
	w.forget()
	if w.heartbeat == nil {
		w.heartbeat = w.r.cfg.Clock.After(w.r.cfg.Heartbeat - (w.r.cfg.Clock.Elapsed() - w.lastPageAt))
	}
	select {
	case <-w.sub.wake:
	case <-w.heartbeat:
		w.heartbeat = nil
	case <-w.r.hub.closed:
		w.ended = true
	case <-w.consumerEnded():
		return w.reading.EndReason()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// consumerEnded returns a channel that is closed when the watch of a consumer must end. For a watch without a consumer it
// returns nil, which never delivers.
func (w *Watch) consumerEnded() <-chan struct{} {
	if w.reading == nil {
		return nil
	}
	return w.reading.Ended()
}

// endReason returns the reason why the watch of a consumer must end. It returns nil if it need not end.
func (w *Watch) endReason() error {
	select {
	case <-w.consumerEnded():
		return w.reading.EndReason()
	default:
		return nil
	}
}
