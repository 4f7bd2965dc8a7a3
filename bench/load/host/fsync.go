package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// fsyncBytes is the size of one append of the yardstick, about what a
// transition writes.
const fsyncBytes = 1024

// FsyncP50 appends to a file in dir and syncs it n times, at least once.
func FsyncP50(dir string, n int) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, fmt.Errorf("fsync yardstick: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, fsyncBytes)
	times := make([]time.Duration, 0, n)
	for range n {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, fmt.Errorf("fsync yardstick: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("fsync yardstick: %w", err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[n/2], nil
}
