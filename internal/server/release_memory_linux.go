package server

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram releases the resident pages of the program's code and constants. It releases only
// mappings in which no page was written, because written pages would be lost. Relocations and a
// debugger's breakpoints write to pages.
func dropProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, m := range cleanMappings(f, exe) {
		// An error only means that less memory is released.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// cleanMappings returns the mappings of the file path that cannot be written and have no modified page.
// smaps is a list in the format of /proc/PID/smaps.
func cleanMappings(smaps io.Reader, path string) []mapping {
	var found []mapping
	var at mapping
	ours := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if m, ok := mappingOf(fields); ok {
			at = m
			ours = len(fields) == 6 && fields[5] == path && (fields[1] == "r-xp" || fields[1] == "r--p")
			continue
		}
		if ours && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" {
			found = append(found, at)
		}
	}
	return found
}

// mappingOf reads the address range of a mapping from the fields of its first line. The first field has
// the form FROM-TO in hexadecimal.
func mappingOf(fields []string) (mapping, bool) {
	if len(fields) < 5 {
		return mapping{}, false
	}
	from, to, ok := strings.Cut(fields[0], "-")
	a, errA := strconv.ParseUint(from, 16, 64)
	b, errB := strconv.ParseUint(to, 16, 64)
	return mapping{uintptr(a), uintptr(b)}, ok && errA == nil && errB == nil && a < b
}
