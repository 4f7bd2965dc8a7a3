package store

import (
	"hash/maphash"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// knownIDs caches the idempotency ids of runs that began after the store was opened. Most events have a
// new id. To find out from the database that an id is new, a read must search every level of the tree.
// If a run is in the cache, no read is needed, because the cache contains all ids of the run. If a run
// was evicted, a read is needed. Only the committer uses the cache. It is not an LRU cache, because
// every commit looks up ids, and a lookup by bytes does not allocate a string here.
type knownIDs struct {
	seed maphash.Seed
	// runs maps the head key of a run to the hashes of all ids of the run.
	runs map[string]map[uint64]struct{}
	// held is the number of hashes and runs in the cache.
	held int
}

// maxKnownIDs limits held. Each hash or run takes about 20 bytes.
const maxKnownIDs = 500_000

func newKnownIDs() knownIDs {
	return knownIDs{seed: maphash.MakeSeed(), runs: make(map[string]map[uint64]struct{})}
}

// absent reports whether it is certain from the cache that no commit of the run has used an id.
func (f *knownIDs) absent(run, key []byte) bool {
	ids, known := f.runs[string(run)]
	if !known {
		return false
	}
	_, taken := ids[maphash.Bytes(f.seed, key)]
	return !taken
}

// note adds the ids of an admitted batch to the cache.
func (f *knownIDs) note(w *Writes) {
	ids, known := f.runs[string(w.run)]
	if w.prev == 0 && !known {
		ids, known = make(map[uint64]struct{}), true
		f.runs[string(w.run)] = ids
		f.held++
	}
	if !known {
		return
	}
	for i := range w.expects {
		if w.expects[i].key[0] == layout.KindRunID {
			ids[maphash.Bytes(f.seed, w.expects[i].key)] = struct{}{}
			f.held++
		}
	}
	if f.held > maxKnownIDs {
		f.forget()
	}
}

// forget evicts a quarter of the cache. It evicts whole runs, in random order.
func (f *knownIDs) forget() {
	for run, ids := range f.runs {
		if f.held <= maxKnownIDs*3/4 {
			return
		}
		f.held -= 1 + len(ids)
		delete(f.runs, run)
	}
}
