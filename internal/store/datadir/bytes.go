package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// DiskBytes returns the disk space that a directory's files use, in bytes: values for the value logs,
// and tree for all other files. It counts allocated blocks, because the files are sparse. Files may be
// created or removed during the call.
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
