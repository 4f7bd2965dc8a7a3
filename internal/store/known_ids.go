package store

import (
	"hash/maphash"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// knownIDs caches the idempotency ids of runs that began since the store was opened. Most
// events bring a new id, and a proof from the database that it is new reads every level. For a
// run in the cache its own ids are proof enough. An evicted run only costs a read. Only the
// committer uses it. It is no LRU cache: a lookup by bytes allocates no string, and every
// commit makes one.
type knownIDs struct {
	seed maphash.Seed
	// runs maps head keys to the hashes of all ids of the run.
	runs map[string]map[uint64]struct{}
	// held counts hashes and runs.
	held int
}

// maxKnownIDs bounds what is held: some 20 bytes each.
const maxKnownIDs = 500_000

func newKnownIDs() knownIDs {
	return knownIDs{seed: maphash.MakeSeed(), runs: make(map[string]map[uint64]struct{})}
}

// absent reports whether an id's key is proven to be in no commit of the run.
func (f *knownIDs) absent(run, key []byte) bool {
	ids, known := f.runs[string(run)]
	if !known {
		return false
	}
	_, taken := ids[maphash.Bytes(f.seed, key)]
	return !taken
}

// note takes an admitted batch of a run.
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

// forget drops a quarter of what is held, whole runs in no order.
func (f *knownIDs) forget() {
	for run, ids := range f.runs {
		if f.held <= maxKnownIDs*3/4 {
			return
		}
		f.held -= 1 + len(ids)
		delete(f.runs, run)
	}
}
