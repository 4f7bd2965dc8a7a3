package load

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, role string) *child {
	t.Helper()
	l := &launcher{self: self(t)}
	c, err := l.start(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return c
}

func hasExited(c *child) bool {
	return errors.Is(c.cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func TestChildEndsWhenItsInputEnds(t *testing.T) {
	t.Parallel()
	c := start(t, "echo")
	var up ready
	if err := c.next(t.Context(), &up); err != nil {
		t.Fatal(err)
	}
	c.in.Close()
	<-c.done
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d: %s", code, c.errs)
	}
	c.stop()
	c.kill()
}

func TestKillIsSudden(t *testing.T) {
	t.Parallel()
	c := start(t, "echo")
	var up ready
	if err := c.next(t.Context(), &up); err != nil {
		t.Fatal(err)
	}
	c.kill()
	if !hasExited(c) {
		t.Error("the child is still there")
	}
	if status := c.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v", status.Signal())
	}
}

func TestCancelledContextEndsTheChild(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	l := &launcher{self: self(t)}
	c, err := l.start(ctx, "echo")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.next(ctx, new(ready)); err == nil {
		t.Error("a cancelled child answered")
	}
	c.stop()
	if !hasExited(c) {
		t.Error("the child is still there")
	}
}

func TestFailureOfAChildReachesTheParent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role, say, want string
	}{
		{"serve", "", "data"},
		{"nonsense", "", `role "nonsense"`},
		{"load", "not json\n", "job:"},
		{"load", `{"kind":"x","target":"127.0.0.1:1","clients":1,"connections":1}` + "\n", "want echo, emit, serve, send, delegate, tool or mcp"},
	} {
		t.Run(c.role+c.say, func(t *testing.T) {
			t.Parallel()
			child := start(t, c.role)
			if c.say != "" {
				if _, err := child.in.Write([]byte(c.say)); err != nil {
					t.Fatal(err)
				}
			}
			err := child.next(t.Context(), new(any))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCPUProfileIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &launcher{self: self(t), profiles: dir}
	c, err := l.start(t.Context(), "echo")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.next(t.Context(), new(ready)); err != nil {
		t.Fatal(err)
	}
	c.stop()
	info, err := os.Stat(filepath.Join(dir, "01-echo.pprof"))
	if err != nil || info.Size() == 0 {
		t.Errorf("profile: %v, %v", info, err)
	}
}

func TestLoadMeasuresAnEchoServer(t *testing.T) {
	t.Parallel()
	s := tinySuite(t)
	var got loadResult
	err := s.onServer(t.Context(), "echo", func(target string) (err error) {
		got, err = s.load(t.Context(), s.job("echo", target, 8))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Count == 0 || got.Total < got.Count || got.PerSec <= 0 || got.P50us <= 0 || got.P99us < got.P50us {
		t.Errorf("%+v", got)
	}
}

func TestLoadWithoutWindowEndsWhenToldTo(t *testing.T) {
	t.Parallel()
	s := tinySuite(t)
	err := s.onServer(t.Context(), "echo", func(target string) error {
		c, err := s.start(t.Context(), "load")
		if err != nil {
			return err
		}
		defer c.stop()
		job := s.job("echo", target, 1)
		job.Window = 0
		// A busy machine may need longer than the warm-up for its first answer.
		for wait := 2 * job.Warm; t.Context().Err() == nil; wait *= 2 {
			var got loadResult
			if err := c.send(job); err != nil {
				return err
			}
			<-time.After(wait)
			if err := c.call(t.Context(), "enough", &got); err != nil {
				return err
			}
			if got.Count > 0 {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
