package host

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Machine says on what the figures were taken.
type Machine struct {
	CPU      string  `json:"cpu"`
	Cores    int     `json:"cores"`
	MemoryGB float64 `json:"memory_gb"`
	// OS is the operating system, its kernel release and the architecture.
	OS string `json:"os"`
	Go string `json:"go"`
	// FileSystem is the type of the file system that holds the data.
	FileSystem string `json:"file_system"`
	// Load says how busy it was when the bench began.
	Load Load `json:"load"`
}

// Describe reads what the system tells; what it does not tell stays
// "unknown" or 0.
func Describe(dir string) Machine {
	release := "unknown"
	if raw, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		release = strings.TrimSpace(string(raw))
	}
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 64)
	cpu := procField("/proc/cpuinfo", "model name")
	if cpu == "" {
		cpu = "unknown"
	}
	return Machine{
		CPU:        cpu,
		Cores:      runtime.NumCPU(),
		MemoryGB:   kb / (1 << 20),
		OS:         fmt.Sprintf("%s %s %s", runtime.GOOS, release, runtime.GOARCH),
		Go:         runtime.Version(),
		FileSystem: fileSystem(dir),
	}
}

// procField is the first "name : value" line of a file in /proc; "" if none.
func procField(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem is the type of the mount that holds dir: the longest mount point
// that is a prefix of it.
func fileSystem(dir string) string {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	kind, longest := "unknown", -1
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || !isUnder(dir, fields[1]) || len(fields[1]) < longest {
			continue
		}
		kind, longest = fields[2], len(fields[1])
	}
	return kind
}

func isUnder(dir, mount string) bool {
	rel, err := filepath.Rel(mount, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
