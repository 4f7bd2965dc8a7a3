package datadir

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
)

// DropUnborn removes the files that an inspection found to be removable, because Badger refuses to open them.
// Most are empty: a process left them when it crashed before it wrote the first byte, or while it removed them.
// DropUnborn also removes an incomplete data key. The caller has locked the directory, so the files belong to
// no running process.
func (n *inspection) DropUnborn() error {
	var err error
	if n.keys != nil {
		err = n.keys.removeIncompleteKey(n.dir)
	}
	for _, name := range n.unborn {
		err = errors.Join(err, os.Remove(filepath.Join(n.dir, name)))
	}
	return err
}

// WholeGarbage verifies the value logs that Badger's garbage collection may rewrite, and reports
// whether there are any. It may rewrite a log of which at least the fraction ratio is dead. Without the
// verification, Badger would move only the values before the first fault and then delete the file with
// all other values.
func WholeGarbage(dir string, ratio float64) (some bool, err error) {
	stats, err := os.ReadFile(filepath.Join(dir, "DISCARD"))
	if err != nil || !soundDiscard(stats) {
		return false, err
	}
	for at := 0; at < len(stats); at += 16 {
		id, dead := binary.BigEndian.Uint64(stats[at:]), binary.BigEndian.Uint64(stats[at+8:])
		if id == 0 {
			return some, nil
		}
		name := ValueLogName(uint32(id))
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || dead == 0 || float64(dead) < ratio*float64(info.Size()) {
			continue
		}
		if err := wholeValues(dir, name); err != nil {
			return true, err
		}
		some = true
	}
	return some, nil
}
