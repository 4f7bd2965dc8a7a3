package encoded

import (
	"errors"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
)

// Bounds of what is kept of records that were sent, for the next readers of the same.
const (
	keptRecords = 4096
	keptBytes   = 4 << 20
	// recordOverhead is what each counts for beside its bytes, so that the bound of bytes
	// is that of their number too.
	recordOverhead = keptBytes / keptRecords
)

// Message is a response in the bytes that go over the wire. It is shared by all who
// send it, and changed by nobody.
type Message []byte

// RecordKey names the bytes of a record in a stream of records. Readers with different
// filters are told different previous records, and those without the scope no sensitive
// values.
type RecordKey struct {
	Namespace string
	Position  uint64
	Index     uint16
	Prev      uint64
	Redacted  bool
	// Erased: what is left of a record.
	Erased bool
}

// Records keeps the records that were converted last, so that many readers of the
// same cost one conversion: a record's message is the same for everybody who may read it and the values in it.
// What is not kept any more is converted anew. Safe for concurrent use.
type Records struct {
	mu   sync.Mutex
	kept *cache.LRU[RecordKey, *keptRecord]
}

// Clear lets go of everything.
func (b *Records) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.Clear()
}

// errUnconverted is what is kept of a record while nobody has converted it.
var errUnconverted = errors.New("sent: a record was not converted")

// keptRecord is converted by the first who asks; the others wait for it.
type keptRecord struct {
	once sync.Once
	data Message
	err  error
}

// NewRecords keeps nothing yet.
func NewRecords() *Records {
	return &Records{kept: cache.New[RecordKey, *keptRecord](keptBytes)}
}

// Of returns the message of a record, made by convert if nobody has made it lately.
func (b *Records) Of(place RecordKey, convert func() (Message, error)) (Message, error) {
	kept := b.keep(place)
	mine := false
	kept.once.Do(func() {
		mine = true
		// What a panic leaves to those who wait.
		kept.err = errUnconverted
		defer b.settle(place, kept)
		kept.data, kept.err = convert()
	})
	if kept.err != nil && !mine {
		// It may have been the other's stream that ended in the middle.
		return convert()
	}
	return kept.data, kept.err
}

// keep finds what is kept of a place, or begins to keep it.
func (b *Records) keep(place RecordKey) *keptRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept, ok := b.kept.Get(place); ok {
		return kept
	}
	kept := &keptRecord{}
	b.kept.Put(place, kept, recordOverhead)
	return kept
}

// settle counts what a record takes; one that could not be converted is not kept.
func (b *Records) settle(place RecordKey, kept *keptRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch now, _ := b.kept.Peek(place); {
	case now != kept:
	case kept.err != nil:
		b.kept.Remove(place)
	default:
		b.kept.Put(place, kept, recordOverhead+len(kept.data))
	}
}
