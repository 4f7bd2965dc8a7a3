package datadir

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
)

// DropUnborn removes the files that an inspection found empty: logs that a crash caught between
// their creation and their first byte, or between their emptying and their removal. Badger
// refuses to open them. The directory is locked, so that no new file of a running process is
// removed. A truncated data key is removed, too.
func (n *inspection) DropUnborn() error {
	var err error
	if n.keys != nil {
		err = n.keys.cut(n.dir)
	}
	for _, name := range n.unborn {
		err = errors.Join(err, os.Remove(filepath.Join(n.dir, name)))
	}
	return err
}

// WholeGarbage proves the value logs that collection might rewrite, those of which that
// part is dead, and says whether there are any: Badger moves what it reads before the first
// fault and deletes the file with what is behind.
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
