package powerdisk

import (
	"maps"
	"math/rand/v2"
)

// node is a file or a directory.
type node struct {
	ino  uint64
	file *file
	dir  *directory
}

// directory is what its names mean now, and which changes of them a cut may take back.
type directory struct {
	names  map[string]*node
	synced map[string]*node
	// changes since the last sync, in order; nil in one removes the name.
	changes []map[string]*node
}

func newDirectory() *directory {
	return &directory{names: map[string]*node{}, synced: map[string]*node{}}
}

// change makes one change, of a name or of two at once.
func (d *directory) change(names map[string]*node) {
	apply(d.names, names)
	d.changes = append(d.changes, names)
}

func apply(names, change map[string]*node) {
	for name, n := range change {
		if n == nil {
			delete(names, name)
		} else {
			names[name] = n
		}
	}
}

func (d *directory) sync() {
	d.synced, d.changes = maps.Clone(d.names), nil
}

// syncNames makes the changes lasting that gave a node its name here or below.
func (d *directory) syncNames(n *node) {
	for i, change := range d.changes {
		if !gives(change, n) {
			continue
		}
		apply(d.synced, change)
		// What happened to these names before is past.
		for _, earlier := range d.changes[:i] {
			for name := range change {
				delete(earlier, name)
			}
		}
		clear(change)
	}
	for _, below := range d.names {
		if below.dir != nil {
			below.dir.syncNames(n)
		}
	}
}

func gives(change map[string]*node, n *node) bool {
	for _, named := range change {
		if named == n {
			return true
		}
	}
	return false
}

// cut keeps the first few changes, then everything below what is left.
func (d *directory) cut(random *rand.Rand, mood mood) (lost int) {
	kept := random.IntN(len(d.changes) + 1)
	switch mood.keptPercent {
	case 0:
		kept = 0
	case 100:
		kept = len(d.changes)
	}
	lost = len(d.changes) - kept
	d.names = maps.Clone(d.synced)
	for _, change := range d.changes[:kept] {
		apply(d.names, change)
	}
	d.sync()
	for _, n := range d.names {
		if n.dir != nil {
			lost += n.dir.cut(random, mood)
		} else {
			lost += n.file.cut(random, mood)
		}
	}
	return lost
}
