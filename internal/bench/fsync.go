package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/bench/latency"
)

// fsyncBytes is the size of one append of the yardstick, about what a
// transition writes.
const fsyncBytes = 1024

// fsyncP50 appends to a file in dir and syncs it n times.
func fsyncP50(dir string, n int) (time.Duration, error) {
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
	return latency.Of(times, 0.5), nil
}
