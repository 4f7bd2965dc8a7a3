package history

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// segmentWrites is how many writes of an appended artifact make one segment: as
// many records at most are read one by one for a value whose segments are held.
const segmentWrites = 64

// maxSegmentBytes bounds what the segments of all artifacts hold together.
const maxSegmentBytes = 32 << 20

// listBytes is what a list of segments weighs besides their values, so that many that are
// empty are bounded too, as is the time to look through them.
const listBytes = 256

// segment is what some writes of an artifact, in a row, amount to. Writes are
// immutable and so are segments: a value folded from them is exact for ever.
type segment struct {
	// last is the record of its last write.
	last  uint64
	value []byte
}

type segmentKey struct {
	run  machine.RunKey
	name string
}

// segments holds the beginnings of artifacts that were read lately, so that a long
// one is not read write by write each time. Safe for concurrent use.
type segments struct {
	mu sync.Mutex
	// held are weighed in bytes.
	held *cache.LRU[segmentKey, []segment]
}

func newSegments() *segments {
	return &segments{held: cache.New[segmentKey, []segment](maxSegmentBytes)}
}

// upTo returns the segments whose writes all lie at or before a record.
func (s *segments) upTo(key segmentKey, seq uint64) []segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, _ := s.held.Get(key)
	n := len(found)
	for n > 0 && found[n-1].last > seq {
		n--
	}
	return found[:n:n]
}

// forget lets go of the artifacts of a run.
func (s *segments) forget(run machine.RunKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.RemoveEach(func(key segmentKey) bool { return key.run == run })
}

// keep holds a longer list of segments than before.
func (s *segments) keep(key segmentKey, longer []segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, _ := s.held.Peek(key); len(held) >= len(longer) {
		return
	}
	bytes := listBytes
	for i := range longer {
		bytes += len(longer[i].value)
	}
	s.held.Put(key, longer, bytes)
}

// folding makes the value of an appended artifact out of segments and writes.
type folding struct {
	head     *machine.ArtifactHead
	segments []segment
	// grown: there are segments that were not held.
	grown  bool
	writes [][]byte
}

// add takes the next write; enough of them become a segment.
func (f *folding) add(seq uint64, value []byte) {
	if f.writes = append(f.writes, value); len(f.writes) == segmentWrites {
		f.segments = append(f.segments, segment{last: seq, value: machine.FoldArtifact(f.head.Type, f.head.Mode, f.writes)})
		f.writes, f.grown = nil, true
	}
}

func (f *folding) value() []byte {
	values := make([][]byte, 0, len(f.segments)+len(f.writes))
	for i := range f.segments {
		values = append(values, f.segments[i].value)
	}
	return machine.FoldArtifact(f.head.Type, f.head.Mode, append(values, f.writes...))
}
