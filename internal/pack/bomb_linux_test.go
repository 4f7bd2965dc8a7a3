package pack

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

const (
	bombEnv = "PAWL_PACK_BOMB"
	// controlBomb uses more than is allowed, to see that the measurement works.
	controlBomb = "control"
	maxResident = 512 << 10 // KiB
)

// TestBombs loads each bomb in a process of its own and looks at the most memory
// that the kernel ever gave it.
func TestBombs(t *testing.T) {
	if os.Getenv(bombEnv) != "" {
		t.Skip("this is the child process")
	}
	t.Parallel()
	if peak, _ := detonate(t, controlBomb); peak <= maxResident {
		t.Fatalf("the control process used 600 MiB, measured were %d KiB", peak)
	}
	for name := range bombs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peak, cpu := detonate(t, name)
			if peak > maxResident {
				t.Errorf("%d KiB resident, the limit is %d", peak, maxResident)
			}
			if cpu > 10*time.Second {
				t.Errorf("%v of CPU time", cpu)
			}
		})
	}
}

// detonate runs the child and returns its peak memory in KiB and its CPU time.
func detonate(t *testing.T, name string) (peak int64, cpu time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestBombChild$", "-test.timeout", "120s")
	cmd.Env = append(os.Environ(), bombEnv+"="+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.3000s", err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no resource usage")
	}
	return usage.Maxrss, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// TestBombChild is the other half of TestBombs.
func TestBombChild(t *testing.T) {
	name := os.Getenv(bombEnv)
	switch name {
	case "":
		t.Skip("started by TestBombs")
	case controlBomb:
		block := make([]byte, 600<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		return
	}
	src, ok := bombs()[name]
	if !ok {
		t.Fatalf("no bomb %q", name)
	}
	if _, _, err := Load([]byte(src), Options{}); err != nil {
		t.Fatal(err)
	}
}
