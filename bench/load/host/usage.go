package host

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// RSSMB is what a process holds in memory now, mapped files included, in
// megabytes of 10^6 bytes.
func RSSMB(pid int) (float64, error) {
	field := procField(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	kb, err := strconv.ParseFloat(strings.TrimSuffix(field, " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("resident memory of process %d: %w", pid, err)
	}
	return kb * 1024 / 1e6, nil
}

// AllocatedBytes is what a directory really takes on the disk: allocated
// blocks, so that holes in sparse files do not count.
func AllocatedBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("allocated blocks of %s: not known on this system", entry.Name())
		}
		total += stat.Blocks * 512
		return nil
	})
	return total, err
}

// StrippedMB is the size of a binary without its symbol tables and debug
// sections, in megabytes of 10^6 bytes: what `-ldflags="-s -w"` would leave.
// A file that is not ELF counts whole.
func StrippedMB(path string) (float64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	size := info.Size()
	binary, err := elf.Open(path)
	if err != nil {
		return float64(size) / 1e6, nil
	}
	defer binary.Close()
	for _, section := range binary.Sections {
		if debugSection(section.Name) {
			size -= int64(section.FileSize)
		}
	}
	return float64(size) / 1e6, nil
}

func debugSection(name string) bool {
	return name == ".symtab" || name == ".strtab" || strings.HasPrefix(name, ".debug_") || strings.HasPrefix(name, ".zdebug_")
}
