package server

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const smaps = `00400000-01312000 r-xp 00000000 fe:00 10569121                           /bin/sidecar
Rss:               14000 kB
Anonymous:             0 kB
01312000-025e6000 r--p 00f12000 fe:00 10569121                           /bin/sidecar
Anonymous:             4 kB
025e6000-026ee000 rw-p 021e5000 fe:00 10569121                           /bin/sidecar
Anonymous:             0 kB
026ee000-04700000 r--p 022e5000 fe:00 10569121                           /bin/sidecar
Anonymous:             0 kB
05000000-05100000 r-xp 00000000 fe:00 10569199                           /lib/libc.so.6
Anonymous:             0 kB
c000000000-c004000000 rw-p 00000000 00:00 0
Anonymous:          1000 kB
VmFlags: rd wr mr mw me ac sd
`

// TestCleanMappings: only pages that are nothing but the program's file are dropped.
func TestCleanMappings(t *testing.T) {
	t.Parallel()
	want := []mapping{{0x400000, 0x1312000}, {0x26ee000, 0x4700000}}
	if got := cleanMappings(strings.NewReader(smaps), "/bin/sidecar"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := cleanMappings(strings.NewReader(smaps), "/bin/other"); got != nil {
		t.Errorf("mappings of another file: %x", got)
	}
}

// TestDropProgram: the process runs on, and its file's pages have been there.
func TestDropProgram(t *testing.T) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(cleanMappings(f, exe)) == 0 {
		t.Fatal("no mapping of this program can be dropped")
	}
	dropProgram()
	if got := strings.Repeat("x", 3); got != "xxx" {
		t.Errorf("after the drop: %q", got)
	}
}
