package codec

import (
	"errors"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
)

// Limits of the cache of sent records.
const (
	keptRecords = 4096
	keptBytes   = 4 << 20
	// recordOverhead is added to the size of each record, so that the limit of bytes also limits the
	// number of records.
	recordOverhead = keptBytes / keptRecords
)

// Message is an encoded response. All senders share it, and it never changes.
type Message []byte

// RecordKey identifies the encoded bytes of a record in a stream of records. The bytes differ between
// readers: the previous record depends on the filter of the reader, and without the scope for sensitive
// values these values are missing.
type RecordKey struct {
	Namespace string
	Position  uint64
	Index     uint16
	Prev      uint64
	Redacted  bool
	// Erased means that the values of the record's run were erased.
	Erased bool
}

// Records caches recently converted records. Readers of the same record that have the same rights get
// the same message, so the record is converted only once. A record that is no longer in the cache is
// converted again. Safe for concurrent use.
type Records struct {
	mu    sync.Mutex
	cache *cache.LRU[RecordKey, *keptRecord]
}

// Clear removes all records.
func (b *Records) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cache.Clear()
}

// errUnconverted is the state of a record in the cache that is not converted yet.
var errUnconverted = errors.New("sent: a record was not converted")

// keptRecord is a record in the cache. Its first reader converts it, and the other readers wait until
// this is done.
type keptRecord struct {
	once sync.Once
	data Message
	err  error
}

// NewRecords returns an empty cache.
func NewRecords() *Records {
	return &Records{cache: cache.New[RecordKey, *keptRecord](keptBytes)}
}

// Message returns the message of a record. It calls convert if the message is not in the cache.
func (b *Records) Message(place RecordKey, convert func() (Message, error)) (Message, error) {
	entry := b.keep(place)
	mine := false
	entry.once.Do(func() {
		mine = true
		// Waiting readers get this error if convert panics.
		entry.err = errUnconverted
		defer b.settle(place, entry)
		entry.data, entry.err = convert()
	})
	if entry.err != nil && !mine {
		// The reader that began to convert the record may have failed only because its own stream ended. So the current
		// reader converts the record for itself.
		return convert()
	}
	return entry.data, entry.err
}

// keep returns the cache entry of a record. It makes the entry if there is none.
func (b *Records) keep(place RecordKey) *keptRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept, ok := b.cache.Get(place); ok {
		return kept
	}
	kept := &keptRecord{}
	b.cache.Put(place, kept, recordOverhead)
	return kept
}

// settle sets the size of a converted record in the cache. If the conversion failed, it removes the
// record from the cache.
func (b *Records) settle(place RecordKey, entry *keptRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch now, _ := b.cache.Peek(place); {
	case now != entry: // the cache no longer has this entry
	case entry.err != nil:
		b.cache.Remove(place)
	default:
		b.cache.Put(place, entry, recordOverhead+len(entry.data))
	}
}
