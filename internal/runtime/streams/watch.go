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
	"github.com/pawl-dev/pawl/internal/runtime/render"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// ErrEnded is returned when a watch has ended. Either the followed run has ended, or a watch that does
// not follow has reached the record that was the newest one when the watch began.
var ErrEnded = errors.New("the watch has ended")

// Request is the argument of [Service.Watch].
type Request struct {
	runtime.Call
	Filter Filter
	// AfterSeq resumes a watch of one run after this record.
	AfterSeq uint64
	// AfterCursor resumes the watch after the cursor of a row or heartbeat. "" means from the first
	// record.
	AfterCursor string
	// FromNow makes the watch begin after the newest record. The first page is then a heartbeat.
	FromNow bool
	// Follow makes the watch wait for records that are committed later.
	Follow bool
	// Snapshots adds the run to each row, as it was after the row's commit.
	Snapshots bool
	// Statuses adds to each row the status of the run after the row's commit. It is only for the watch of one run.
	Statuses bool
	// Output adds the output of turns that workers are executing. It is possible only for a watch of
	// one run that follows. OutputAfter is the position up to which the caller has already read the
	// output.
	Output      bool
	OutputAfter render.OutputPosition
	// Assignments adds a page when the open turn of the run is assigned. No record shows this. It is
	// possible only for a watch of one run.
	Assignments bool
	// Consumer is the consumer that watches all runs. It is "" if there is none. Without AfterCursor
	// the watch begins after the consumer's acknowledged position. A newer watch of the same consumer
	// ends an older one.
	Consumer string
}

// Page is the result of [Watch.Next]. It contains records, output or an assignment, or it is a heartbeat.
type Page struct {
	Records []runtime.RecordRow
	// Cursor is the position up to which the watch has read, including records that did not match.
	Cursor runtime.Cursor
	// Heartbeat reports whether the page has no records because none matched for a while.
	Heartbeat bool
	// Output are pieces of turn output, if the caller requested them. A page with output has no
	// records.
	Output []render.OutputChunk
	// AssignedTurn is the turn that was assigned, if the caller requested this. It is 0 if no turn was
	// assigned. A page with an assigned turn has no records.
	AssignedTurn uint64
}

// Watch reads records in order. Its caller determines the speed by calling Next. Unread records stay in
// the store, so a slow caller receives all records late and does not block other code. Not safe for
// concurrent use.
type Watch struct {
	r      *Service
	key    runtime.RunKey
	follow bool
	filter *recordFilter
	// at is the position after the last record that was read. until is the end of a watch that does not
	// follow. It is a position, or a seq of one run.
	at    runtime.Cursor
	seq   uint64
	until uint64
	// sub is the subscription of the watch. It is nil if the watch does not follow.
	sub       *subscription
	heartbeat <-chan time.Time
	// lastPageAt is the time of the last page, as a value of the clock's Elapsed.
	lastPageAt time.Duration
	over       bool
	// pageBytes is the part of the shared budget that the last page uses, in bytes.
	pageBytes int64
	// greet reports whether the first page must be a heartbeat that contains the start position.
	greet bool
	// output reports whether the caller requested turn output. outputAfter is the position up to which the output was read.
	output      bool
	outputAfter render.OutputPosition
	// assignments reports whether the caller requested assigned turns. reportedTurn is the last turn that was reported.
	assignments  bool
	reportedTurn uint64
	// reading is the reading of the watch's consumer. It is nil if the watch has no consumer.
	reading Reading
}

// Watch opens a stream of records of one run or of a namespace. The caller must close it.
//
// Errors: NOT_FOUND for a run; OUT_OF_RANGE CURSOR_FOREIGN or CURSOR_AHEAD for a cursor that is not
// of this journal; SEQ_AHEAD for a record that does not exist yet; for a consumer CONSUMER_TAKEN
// and MAX_CONSUMERS.
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

// resume makes a consumer's watch start at its acknowledged position. If the request contains a cursor,
// the watch starts at the cursor instead.
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

// begin determines the start of the watch. For a watch that does not follow it also determines the end.
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
			Message: fmt.Sprintf("the run's last record is %d", head.Seq), Limit: figure(head.Seq), Got: figure(req.AfterSeq),
		}
	}
	if w.at.Position == 0 {
		return nil
	}
	seq, err := w.seqBehind(ctx, head.Seq)
	w.seq = max(w.seq, seq)
	return err
}

// seqBehind returns the last record of the run at or before the cursor. It uses binary search, because
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

// Next waits for the next page. If there is none for the time Config.Heartbeat, it returns a heartbeat.
// Next releases the memory of the previous page.
//
// Errors: [ErrEnded] ends the watch. CONSUMER_REPLACED and CONSUMER_NOT_FOUND end the watch of a
// consumer. All other errors come from ctx or the store. After such an error Next may be called again.
func (w *Watch) Next(ctx context.Context) (Page, error) {
	w.forget()
	if err := w.replaced(); err != nil {
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
		// The output arrived before the entries, so it must be delivered first. The entries are read
		// again later.
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
		case w.over:
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

// maxChunks bounds the number of pieces of output in one page.
const maxChunks = 16

// chunks returns the pieces of output that precede the next record.
func (w *Watch) chunks() []render.OutputChunk {
	var chunks []render.OutputChunk
	for len(chunks) < maxChunks {
		chunk, ok := w.chunk()
		if !ok {
			break
		}
		w.outputAfter = render.OutputPosition{Turn: chunk.Turn, Delivery: chunk.Delivery, Offset: chunk.Offset + int64(len(chunk.Text))}
		chunks = append(chunks, chunk)
	}
	return chunks
}

// chunk returns the next piece of output. It returns false if there is no piece, or if a record precedes it.
func (w *Watch) chunk() (chunk render.OutputChunk, ok bool) {
	if !w.output || w.key.ID == "" || w.r.cfg.Live == nil {
		return chunk, false
	}
	chunk, ok = w.r.cfg.Live.Output(w.key, w.outputAfter)
	return chunk, ok && (chunk.Behind <= w.seq || w.over)
}

// newlyAssignedTurn returns the turn that was assigned since the last call, or 0. It returns a turn
// only after the watch has read the record that opened the turn.
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

// read returns the entries after the position of the watch. It returns no entries if the watch has read all of them.
func (w *Watch) read(ctx context.Context) ([]machine.Entry, error) {
	if w.over {
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
		w.over = true
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
		w.over = !w.follow
		if scanned > w.at.Position {
			w.at.Position, w.at.Index = scanned, validate.WholeEntry
		}
	}
	return entries, nil
}

// readRun reads the entries of one run. It sets over when the watch has read all of them.
func (w *Watch) readRun(ctx context.Context) ([]machine.Entry, error) {
	head, err := w.r.cfg.Engine.Head(ctx, w.key)
	if err != nil {
		return nil, err
	}
	if w.seq >= head.Seq || !w.follow && w.seq >= w.until {
		w.over = !w.follow || head.Status.Terminal()
		return nil, nil
	}
	entries, err := w.r.cfg.Store.Entries(ctx, w.key.Namespace, w.key.ID, w.seq+1, w.mayRead())
	if err != nil {
		return nil, fmt.Errorf("streams: read run %s from record %d: %w", w.key.ID, w.seq+1, err)
	}
	return entries, nil
}

// rows returns the matching records of entries and moves the watch to the position after them. If an error occurs after some records,
// rows returns these records, and the error occurs again in the next call.
func (w *Watch) rows(ctx context.Context, entries []machine.Entry) ([]runtime.RecordRow, error) {
	var rows []runtime.RecordRow
	held := int64(0)
	for i := range entries {
		entry := &entries[i]
		if len(rows) > 0 && held >= w.pageBytes || i > 0 && w.interrupted() {
			break // the remaining entries are read again
		}
		if w.key.ID == "" && !w.follow && entry.Cursor > w.until {
			w.over = true
			break
		}
		seen, err := w.filter.entry(ctx, entry)
		if w.key.ID == "" && machine.IsDeleted(err) {
			// The run was deleted after its entry was read. The entry is now a gap.
			seen, err = nil, nil
		}
		if machine.IsErased(err) && !entry.Erased {
			break // the run was erased after its entry was read, so the entry is read again
		}
		if err != nil && len(rows) > 0 {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		for _, row := range seen {
			if w.behind(entry, row.Record.Seq) {
				row.Cursor = runtime.Cursor{Epoch: w.at.Epoch, Position: entry.Cursor, Index: uint16(row.Record.Seq - entry.First)}
				rows, held = append(rows, row), held+rowBytes(&row)
			}
		}
		w.at.Position, w.at.Index = entry.Cursor, validate.WholeEntry
		w.seq = entry.First + uint64(len(entry.Records)) - 1
	}
	return rows, nil
}

// interrupted reports whether a piece of output precedes the next entry.
func (w *Watch) interrupted() bool {
	_, now := w.chunk()
	return now
}

// behind reports whether the record comes after the position at which the watch was resumed.
func (w *Watch) behind(entry *machine.Entry, seq uint64) bool {
	if w.key.ID != "" {
		return seq > w.seq && (w.follow || seq <= w.until)
	}
	return entry.Cursor != w.at.Position || seq-entry.First > uint64(w.at.Index)
}

// wait blocks until the next commit or heartbeat, or until ctx ends.
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
		w.over = true
	case <-w.consumed():
		return w.reading.Why()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// consumed returns a channel that is closed when the watch of a consumer must end. It returns nil for a watch without a consumer.
func (w *Watch) consumed() <-chan struct{} {
	if w.reading == nil {
		return nil
	}
	return w.reading.Ended()
}

// replaced returns the reason why the watch of a consumer must end, or nil.
func (w *Watch) replaced() error {
	select {
	case <-w.consumed():
		return w.reading.Why()
	default:
		return nil
	}
}
