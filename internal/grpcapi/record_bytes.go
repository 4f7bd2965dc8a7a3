package grpcapi

import (
	"errors"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
)

// Bounds of what is kept of records that were sent, for the next readers of the same.
const (
	keptRecords = 4096
	keptBytes   = 4 << 20
	// recordRoom is what each counts for beside its bytes, so that the bound of bytes
	// is that of their number too.
	recordRoom = keptBytes / keptRecords
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
	mu   sync.Mutex
	kept *cache.LRU[recordPlace, *keptRecord]
}

// errUnconverted is what is kept of a record while nobody has converted it.
var errUnconverted = errors.New("grpcapi: a record was not converted")

// keptRecord is converted by the first who asks; the others wait for it.
type keptRecord struct {
	once sync.Once
	data wireMessage
	err  error
}

func newRecordBytes() *recordBytes {
	return &recordBytes{kept: cache.New[recordPlace, *keptRecord](keptBytes)}
}

// of returns the message of a record, made by convert if nobody has made it lately.
func (b *recordBytes) of(place recordPlace, convert func() (wireMessage, error)) (wireMessage, error) {
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
func (b *recordBytes) keep(place recordPlace) *keptRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept, ok := b.kept.Get(place); ok {
		return kept
	}
	kept := &keptRecord{}
	b.kept.Put(place, kept, recordRoom)
	return kept
}

// settle counts what a record takes; one that could not be converted is not kept.
func (b *recordBytes) settle(place recordPlace, kept *keptRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch now, _ := b.kept.Peek(place); {
	case now != kept:
	case kept.err != nil:
		b.kept.Remove(place)
	default:
		b.kept.Put(place, kept, recordRoom+len(kept.data))
	}
}
