package e2e

import (
	"bufio"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sample is what a process has taken at one moment.
type sample struct {
	at time.Duration
	// memory is what is no file's, in bytes; goroutines are the process's own count.
	memory, goroutines int64
	// descriptors are open ones but those of the store's files, which follow its size.
	descriptors int64
	// disk is what the directory occupies, in bytes.
	disk int64
	// ended counts the runs that were ended so far, deletedRuns those that were deleted, acknowledged the
	// acknowledged changes.
	ended, deletedRuns, acknowledged int64
}

func (s sample) String() string {
	return fmt.Sprintf("%6s  memory %4d MiB  goroutines %5d  descriptors %4d  disk %5d MiB  runs ended %7d  deleted %7d  acknowledged %8d",
		s.at.Round(time.Second), s.memory>>20, s.goroutines, s.descriptors, s.disk>>20, s.ended, s.deletedRuns, s.acknowledged)
}

// take reads a sample of a running sidecar.
func take(s *sidecar) (out sample, err error) {
	pid := s.cmd.Process.Pid
	if out.memory, err = anonymous(pid); err != nil {
		return out, err
	}
	if out.goroutines, err = gauge(s.metrics, "go_goroutines"); err != nil {
		return out, err
	}
	if out.descriptors, err = descriptors(pid, s.dir); err != nil {
		return out, err
	}
	out.disk, err = diskUsage(s.dir)
	return out, err
}

// anonymous is the memory of a process that no file backs: mapped files are the cache's.
func anonymous(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("process %d tells no RssAnon", pid)
}

func descriptors(pid int, dir string) (n int64, err error) {
	list := fmt.Sprintf("/proc/%d/fd", pid)
	all, err := os.ReadDir(list)
	for _, fd := range all {
		to, err := os.Readlink(filepath.Join(list, fd.Name()))
		if err == nil && !strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n, err
}

// gauge reads one value of the metrics.
func gauge(addr, name string) (int64, error) {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			return int64(f), err
		}
	}
	return 0, fmt.Errorf("no %s among the metrics: %w", name, lines.Err())
}

// diskUsage is what a directory's files take of the disk; they are sparse.
func diskUsage(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // The store removed it meanwhile.
		}
		if info, err := d.Info(); err == nil {
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return sum, err
}

// flat compares the second half of what came after the warm-up with the first: neither
// memory nor goroutines, descriptors or disk grow with the age of the store.
func flat(t *testing.T, all []sample) {
	t.Helper()
	all = all[len(all)/4:]
	if len(all) < 4 {
		t.Logf("%d samples after the warm-up are too few to compare", len(all))
		return
	}
	early, late := all[:len(all)/2], all[len(all)/2:]
	for _, m := range []struct {
		name  string
		of    func(sample) int64
		slack int64
	}{
		{"memory", func(s sample) int64 { return s.memory }, 48 << 20},
		{"goroutines", func(s sample) int64 { return s.goroutines }, 40},
		{"descriptors", func(s sample) int64 { return s.descriptors }, 20},
		// What ended is deleted, the value log collected only every ten minutes.
		{"disk", func(s sample) int64 { return s.disk }, 128 << 20},
	} {
		before, after := median(early, m.of), median(late, m.of)
		if after > before+before/4+m.slack {
			t.Errorf("%s grows: %d in the first half, %d in the second", m.name, before, after)
		}
		t.Logf("soak: %s %d in the first half after the warm-up, %d in the second", m.name, before, after)
	}
}

func median(all []sample, of func(sample) int64) int64 {
	values := make([]int64, 0, len(all))
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
