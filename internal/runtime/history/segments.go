package history

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// segmentWrites is the number of writes of an artifact with the mode Append that are combined into one
// segment. If the segments are cached, fewer than this many writes are read from records.
const segmentWrites = 64

// maxSegmentBytes bounds the cached segments (combined writes) of all artifacts together, in bytes.
const maxSegmentBytes = 32 << 20

// listBytes is the number of bytes that the cache counts for a list of segments in addition to its
// values, so that the number of small lists is bounded, too.
const listBytes = 256

// segment is the combined value of consecutive writes of an artifact. Writes are immutable, so a
// segment never changes.
type segment struct {
	// last is the seq of the record with the last write of the segment.
	last  uint64
	value []byte
}

type segmentKey struct {
	run  machine.RunKey
	name string
}

// segments caches the segments of recently read artifacts, so that a long artifact is not read write
// by write each time. Safe for concurrent use.
type segments struct {
	mu sync.Mutex
	// cached maps an artifact to its segments. The cache bounds the bytes of all segments.
	cached *cache.LRU[segmentKey, []segment]
}

func newSegments() *segments {
	return &segments{cached: cache.New[segmentKey, []segment](maxSegmentBytes)}
}

// upTo returns the cached segments (combined writes) of an artifact that contain only writes up to the
// record seq.
func (s *segments) upTo(key segmentKey, seq uint64) []segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, _ := s.cached.Get(key)
	n := len(found)
	for n > 0 && found[n-1].last > seq {
		n--
	}
	return found[:n:n]
}

// forget removes the cached segments (combined writes) of all artifacts of a run.
func (s *segments) forget(run machine.RunKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached.RemoveEach(func(key segmentKey) bool { return key.run == run })
}

// keep caches a list of segments (combined writes) of an artifact if it is longer than the cached
// list.
func (s *segments) keep(key segmentKey, longer []segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, _ := s.cached.Peek(key); len(held) >= len(longer) {
		return
	}
	bytes := listBytes
	for i := range longer {
		bytes += len(longer[i].value)
	}
	s.cached.Put(key, longer, bytes)
}

// artifactBuilder combines cached segments and single writes into the value of an artifact with the mode Append. With the mode Replace, it
// gets only one write.
type artifactBuilder struct {
	head     *machine.ArtifactHead
	segments []segment
	// grown reports whether new segments were made, which are not cached yet.
	grown  bool
	writes [][]byte
}

// add appends the next write to the value. After every segmentWrites writes it combines them into a
// new segment.
func (f *artifactBuilder) add(seq uint64, value []byte) {
	if f.writes = append(f.writes, value); len(f.writes) == segmentWrites {
		f.segments = append(f.segments, segment{last: seq, value: machine.FoldArtifact(f.head.Type, f.head.Mode, f.writes)})
		f.writes, f.grown = nil, true
	}
}

func (f *artifactBuilder) value() []byte {
	values := make([][]byte, 0, len(f.segments)+len(f.writes))
	for i := range f.segments {
		values = append(values, f.segments[i].value)
	}
	return machine.FoldArtifact(f.head.Type, f.head.Mode, append(values, f.writes...))
}
