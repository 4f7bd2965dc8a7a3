package child_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/testkit/child"
)

// parent has this program start a child, and tell its number.
const parent = "PAWL_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parent) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "600")
	if err := child.Start(cmd, syscall.SIGKILL); err != nil {
		fmt.Println(err)
	}
	fmt.Println(cmd.Process.Pid)
	_ = cmd.Wait()
}

// TestNoOrphans: a process that is killed takes along what it started.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parent+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(time.Minute); lives(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child of a killed process lives on")
		}
	}
}

// lives reports whether the process exists and is not a zombie.
func lives(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
