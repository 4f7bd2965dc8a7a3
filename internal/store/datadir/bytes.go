package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// DiskBytes returns the disk space of a directory's files in bytes: values for the value logs, and tree
// for all other files. Files are sparse, and may be created or removed during the call.
func DiskBytes(dir string) (tree, values int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		size := info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size = st.Blocks * 512
		}
		if filepath.Ext(e.Name()) == ".vlog" {
			values += size
		} else {
			tree += size
		}
	}
	return tree, values, nil
}
