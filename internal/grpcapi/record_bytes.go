package grpcapi

import "sync"

// Bounds of what is kept of records that were sent, for the next readers of the same:
// those of each of two generations.
const (
	keptRecords = 2048
	keptBytes   = 2 << 20
)

// wireMessage is a response in the bytes that go over the wire. It is shared by all who
// send it, and changed by nobody.
type wireMessage []byte

// recordPlace names the bytes of a record in a stream of records. Readers with different
// filters are told different previous records.
type recordPlace struct {
	namespace string
	position  uint64
	index     uint16
	prev      uint64
}

// recordBytes keeps the records that were converted last, so that many readers of the
// same cost one conversion: a record's message is the same for everybody who may read it.
// What is not kept any more is converted anew. Safe for concurrent use.
type recordBytes struct {
	mu sync.Mutex
	// young and old are the two generations: once the young one is full it is the old
	// one, whose records go. bytes are the young one's.
	young, old map[recordPlace]*keptRecord
	bytes      int
}

// keptRecord is converted by the first who asks; the others wait for it.
type keptRecord struct {
	once sync.Once
	data wireMessage
	err  error
}

func newRecordBytes() *recordBytes {
	return &recordBytes{young: make(map[recordPlace]*keptRecord)}
}

// of returns the message of a record, made by convert if nobody has made it lately.
func (b *recordBytes) of(place recordPlace, convert func() (wireMessage, error)) (wireMessage, error) {
	kept := b.keep(place)
	mine := false
	kept.once.Do(func() {
		mine = true
		kept.data, kept.err = convert()
		b.settle(place, kept)
	})
	if kept.err != nil && !mine {
		// It may have been the other's stream that ended in the middle.
		return convert()
	}
	return kept.data, kept.err
}

// keep finds what is kept of a place, or begins to keep it.
func (b *recordBytes) keep(place recordPlace) *keptRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept := b.young[place]; kept != nil {
		return kept
	}
	if kept := b.old[place]; kept != nil {
		return kept
	}
	if len(b.young) >= keptRecords || b.bytes >= keptBytes {
		b.young, b.old, b.bytes = make(map[recordPlace]*keptRecord, len(b.young)), b.young, 0
	}
	kept := &keptRecord{}
	b.young[place] = kept
	return kept
}

// settle counts what a record takes; one that could not be converted is not kept.
func (b *recordBytes) settle(place recordPlace, kept *keptRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.young[place] != kept:
	case kept.err != nil:
		delete(b.young, place)
	default:
		b.bytes += len(kept.data)
	}
}
