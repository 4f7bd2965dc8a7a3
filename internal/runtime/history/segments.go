package history

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// segmentWrites is the number of writes of an appended artifact that are combined into one segment. If
// the segments of a value are cached, at most this many records are read one by one.
const segmentWrites = 64

// maxSegmentBytes bounds the sum of the segments of all artifacts, in bytes.
const maxSegmentBytes = 32 << 20

// listBytes is the number of bytes that the cache counts for a list of segments in addition to its
// values. It bounds the number of empty lists, and so the time to search them.
const listBytes = 256

// segment is the combined value of some consecutive writes of an artifact. Writes are immutable, so
// a segment never changes.
type segment struct {
	// last is the number of the record of the segment's last write.
	last  uint64
	value []byte
}

type segmentKey struct {
	run  machine.RunKey
	name string
}

// segments caches the segments of recently read artifacts, so that a long artifact is not read
// write by write each time. Safe for concurrent use.
type segments struct {
	mu sync.Mutex
	// held maps an artifact to its segments. The cache bounds the bytes of all segments.
	held *cache.LRU[segmentKey, []segment]
}

func newSegments() *segments {
	return &segments{held: cache.New[segmentKey, []segment](maxSegmentBytes)}
}

// upTo returns the segments that contain only writes up to the record seq.
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

// forget removes the artifacts of a run.
func (s *segments) forget(run machine.RunKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.RemoveEach(func(key segmentKey) bool { return key.run == run })
}

// keep stores a list of segments if it is longer than the stored one.
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

// folding combines segments and single writes into the value of an appended artifact.
type folding struct {
	head     *machine.ArtifactHead
	segments []segment
	// grown reports whether folding made new segments, which are not cached yet.
	grown  bool
	writes [][]byte
}

// add appends the next write to the value. After segmentWrites writes it makes a new segment.
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
