package streams

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// tailSlots is the largest number of recent entries of a namespace that are kept in memory.
const tailSlots = 4096

// recentEntries is a ring of the newest entries of a namespace, by cursor, so that many readers do not read the same
// entries from the store. Commits arrive in any order. A reader gets only entries that follow its cursor without a gap,
// and reads everything else from the store. A cache.LRU cannot be used, because entries must leave in the order of
// their cursors and not of their use. Safe for concurrent use.
type recentEntries struct {
	mu     sync.Mutex
	ring   [tailSlots]machine.Entry
	sizes  [tailSlots]int64
	oldest uint64
	newest uint64
	bytes  int64
	limit  int64
}

func newRecentEntries(limit int64) *recentEntries { return &recentEntries{limit: limit} }

// put adds a committed entry. If the memory or the slots are used up, the oldest entries are removed.
func (t *recentEntries) put(e machine.Entry) {
	size := entryBytes(&e)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest == 0 {
		t.oldest = e.Cursor
	}
	if e.Cursor < t.oldest || e.Cursor+tailSlots <= t.newest {
		return
	}
	if e.Cursor >= t.newest+tailSlots {
		t.dropThrough(t.newest)
		t.oldest = e.Cursor
	} else if e.Cursor >= t.oldest+tailSlots {
		t.dropThrough(e.Cursor - tailSlots)
	}
	i := e.Cursor % tailSlots
	t.ring[i], t.sizes[i] = e, size
	t.bytes += size
	t.newest = max(t.newest, e.Cursor)
	for t.bytes > t.limit && t.oldest < t.newest {
		t.dropThrough(t.oldest)
	}
}

// dropThrough removes all entries up to and including a cursor.
func (t *recentEntries) dropThrough(cursor uint64) {
	for ; t.oldest <= cursor; t.oldest++ {
		i := t.oldest % tailSlots
		if t.ring[i].Cursor == t.oldest {
			t.bytes -= t.sizes[i]
			t.ring[i], t.sizes[i] = machine.Entry{}, 0
		}
	}
}

// forget removes the entries of a deleted run from memory. A reader that finds an empty slot reads the store, where the
// deleted run is a gap.
func (t *recentEntries) forget(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.ring {
		if t.ring[i].Cursor != 0 && t.ring[i].RunID == run {
			t.bytes -= t.sizes[i]
			t.ring[i], t.sizes[i] = machine.Entry{}, 0
		}
	}
}

// after returns the entries that directly follow a cursor, within the bounds of page. If the next entry is not in
// memory, it returns nothing.
func (t *recentEntries) after(cursor uint64, page machine.Page) []machine.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	var entries []machine.Entry
	var size int64
	for next := cursor + 1; len(entries) < page.Records && size < int64(page.Bytes); next++ {
		i := next % tailSlots
		if t.ring[i].Cursor != next {
			break
		}
		entries = append(entries, t.ring[i])
		size += t.sizes[i]
	}
	return entries
}

// entryBytes estimates the memory of an entry, in bytes.
func entryBytes(e *machine.Entry) int64 {
	const fixed = 700 // the entry, its input and the fixed size of one or two records
	size := int64(fixed)
	for i := range e.Records {
		size += recordBytes(e.Records[i].Body)
	}
	return size
}

// recordBytes returns the approximate memory that a record uses, in bytes.
func recordBytes(body machine.Body) int64 {
	size := 200
	for _, w := range machine.ArtifactWrites(body) {
		size += len(w.Name) + len(w.Value)
	}
	switch b := body.(type) {
	case *machine.InputReceived:
		size += partsBytes(b.Parts)
	case *machine.Steered:
		size += len(b.Text)
	case *machine.TurnCompleted:
		size += partsBytes(b.Output)
		for i := range b.Messages {
			size += partsBytes(b.Messages[i].Parts) + len(b.Messages[i].ToolCalls)
		}
	case *machine.Origin:
		for _, copies := range b.Conversations {
			for i := range copies.Messages {
				size += partsBytes(copies.Messages[i].Parts) + len(copies.Messages[i].ToolCalls)
			}
		}
	case *machine.StepRequested:
		size += len(b.Payload)
	case *machine.StepResolved:
		size += len(b.Result)
	case *machine.StepDecided:
		size += len(b.Payload) + len(b.Reason)
	case *machine.StepRejected:
		size += len(b.Denial.Message)
	}
	return int64(size)
}

func partsBytes(parts []machine.Part) int {
	size := 0
	for i := range parts {
		size += 100 + len(parts[i].Text) + len(parts[i].Data) + len(parts[i].Metadata)
	}
	return size
}
