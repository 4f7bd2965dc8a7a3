package store

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// runMerge merges several scans of index rows into one ordered sequence of runs. The rows of each scan
// are sorted by run.
type runMerge struct {
	newest  bool
	sources []*runSource
	// Head is the value of the row of the run that Next returned, if the scans read stored states.
	// Otherwise it is nil. It is valid until the next call of Next.
	Head []byte
}

// runSource is the scan of one key prefix. run is the run of its current row. base is the number of
// bytes in the key before the run's id.
type runSource struct {
	iterator kv.Iterator
	p        []byte
	base     int
	run      string
	ok       bool
}

// newRunMerge returns a runMerge that begins after the run after, and includes only runs whose ids
// begin with id.
func newRunMerge(txn *layout.Txn, prefixes [][]byte, id string, newest bool, after string) *runMerge {
	w := &runMerge{newest: newest}
	for _, base := range prefixes {
		p := append(slices.Clone(base), id...)
		src := &runSource{p: p, base: len(base), iterator: *txn.Scan(kv.Range{Prefix: p, Reverse: newest})}
		start := slices.Clone(p)
		switch {
		case after != "":
			start = layout.AppendName(slices.Clone(base), after)
		case newest:
			// A reverse scan begins after the last key with the prefix.
			start = append(start, 0xFF, 0xFF)
		}
		src.iterator.Seek(start)
		w.sources = append(w.sources, src)
	}
	for _, src := range w.sources {
		src.read()
		if src.ok && after != "" && src.run == after {
			src.iterator.Next()
			src.read()
		}
	}
	return w
}

// read decodes the run in the current row's key.
func (src *runSource) read() {
	src.run, src.ok = "", layout.AtPrefix(&src.iterator, src.p)
	if src.ok {
		src.run, _, _ = layout.CutName(src.iterator.Key()[src.base:])
	}
}

// Next returns the next run in order. It returns false at the end.
func (w *runMerge) Next() (string, bool, error) {
	var best *runSource
	for _, src := range w.sources {
		if !src.ok {
			continue
		}
		if src.run == "" {
			return "", false, fmt.Errorf("malformed index key %x", src.iterator.Key())
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
		err := layout.ValueOf(&best.iterator, func(value []byte) error {
			w.Head = append(w.Head[:0], value...)
			return nil
		})
		if err != nil {
			return "", false, err
		}
	}
	for _, src := range w.sources {
		if src.ok && src.run == run {
			src.iterator.Next()
			src.read()
		}
	}
	return run, true, nil
}

// Close ends the scans.
func (w *runMerge) Close() {
	for _, src := range w.sources {
		src.iterator.Close()
	}
}
