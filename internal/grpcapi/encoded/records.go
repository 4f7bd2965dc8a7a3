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

// Message is an encoded response. All senders share it, and it never changes.
type Message []byte

// RecordKey identifies the bytes of a record in a stream of records. Readers with different
// filters get different previous records, and those without the scope get no sensitive values.
type RecordKey struct {
	Namespace string
	Position  uint64
	Index     uint16
	Prev      uint64
	Redacted  bool
	// Erased: what is left of a record.
	Erased bool
}

// Records caches recently converted records, so that many readers of the same record cost one
// conversion: readers with the same rights get the same message. A record that has left the
// cache is converted again. Safe for concurrent use.
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

// errUnconverted marks a record in the cache that is not converted yet.
var errUnconverted = errors.New("sent: a record was not converted")

// keptRecord is converted by its first reader; the others wait for it.
type keptRecord struct {
	once sync.Once
	data Message
	err  error
}

// NewRecords makes an empty cache.
func NewRecords() *Records {
	return &Records{kept: cache.New[RecordKey, *keptRecord](keptBytes)}
}

// Of returns the message of a record. It calls convert if the message is not in the cache.
func (b *Records) Of(place RecordKey, convert func() (Message, error)) (Message, error) {
	kept := b.keep(place)
	mine := false
	kept.once.Do(func() {
		mine = true
		// Waiting readers get this error if convert panics.
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
