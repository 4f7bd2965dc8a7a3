package store

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// runMerge merges the rows under several prefixes, each sorted by run, into one
// order of runs.
type runMerge struct {
	newest  bool
	sources []*runSource
	// Head is that of the run that Next returned, where the rows are heads; else nil.
	// It is good until the next call.
	Head []byte
}

// runSource is one prefix under way; run is its current row. The run's name begins
// behind the first base bytes of the key.
type runSource struct {
	it   kv.Iterator
	p    []byte
	base int
	run  string
	ok   bool
}

// newRunMerge starts at the runs whose id begins with id, after the run after.
func newRunMerge(txn *layout.Txn, prefixes [][]byte, id string, newest bool, after string) *runMerge {
	w := &runMerge{newest: newest}
	for _, base := range prefixes {
		p := append(slices.Clone(base), id...)
		src := &runSource{p: p, base: len(base), it: *txn.Scan(kv.Range{Prefix: p, Reverse: newest})}
		start := slices.Clone(p)
		switch {
		case after != "":
			start = layout.AppendName(slices.Clone(base), after)
		case newest:
			start = append(start, 0xFF, 0xFF)
		}
		src.it.Seek(start)
		w.sources = append(w.sources, src)
	}
	for _, src := range w.sources {
		src.read()
		if src.ok && after != "" && src.run == after {
			src.it.Next()
			src.read()
		}
	}
	return w
}

// read takes the run from the current row's key.
func (src *runSource) read() {
	src.run, src.ok = "", layout.Has(&src.it, src.p)
	if src.ok {
		src.run, _, _ = layout.CutName(src.it.Key()[src.base:])
	}
}

// Next returns the next run in order; false at the end.
func (w *runMerge) Next() (string, bool, error) {
	var best *runSource
	for _, src := range w.sources {
		if !src.ok {
			continue
		}
		if src.run == "" {
			return "", false, fmt.Errorf("malformed index key %x", src.it.Key())
		}
		if best == nil || src.run != best.run && (src.run > best.run) == w.newest {
			best = src
		}
	}
	if best == nil {
		return "", false, nil
	}
	run := best.run
	if best.p[0] == layout.KindHead {
		err := layout.ValueOf(&best.it, func(value []byte) error {
			w.Head = append(w.Head[:0], value...)
			return nil
		})
		if err != nil {
			return "", false, err
		}
	}
	for _, src := range w.sources {
		if src.ok && src.run == run {
			src.it.Next()
			src.read()
		}
	}
	return run, true, nil
}

// Close lets go of the rows.
func (w *runMerge) Close() {
	for _, src := range w.sources {
		src.it.Close()
	}
}
