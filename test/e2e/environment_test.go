package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/powerdisk"
)

// scripted are runs of the crash pack that were driven while something was wrong.
type scripted struct {
	acknowledged atomic.Int64
	drivers      []*play.Driver
	wait         sync.WaitGroup
}

// play begins n scripts, each by a client of its own.
func playAlong(ctx context.Context, t *testing.T, s *sidecar, n int) *scripted {
	t.Helper()
	p := &scripted{}
	for script := range n {
		d := &play.Driver{Client: s.runs(), Script: script + 1, Acked: &p.acknowledged, Ledger: map[uint64][]byte{}}
		p.drivers = append(p.drivers, d)
		p.wait.Go(func() {
			if err := d.Play(ctx); err != nil && !errors.Is(err, play.ErrRunEnded) {
				t.Errorf("script %d, run %s: %v", d.Script, d.Run, err)
			}
		})
	}
	return p
}

// checkAcknowledged waits for the end of all scripts and looks for all that was acknowledged.
func (p *scripted) checkAcknowledged(ctx context.Context, t *testing.T, s *sidecar) {
	t.Helper()
	p.wait.Wait()
	for _, d := range p.drivers {
		for _, loss := range lostOf(ctx, s.runs(), d.Run, d.Ledger) {
			t.Errorf("script %d: %s", d.Script, loss)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	s.check()
}

// checkRefusal starts a process that has to end with code 1, with these words and no trace of a
// panic.
func (s *sidecar) checkRefusal(words ...string) {
	s.t.Helper()
	if _, err := s.tryStart(); err == nil {
		s.t.Errorf("it started, want %q", words)
		s.kill()
		return
	}
	<-s.done
	s.ended(words...)
}

// ended judges what a process said that ended by itself.
func (s *sidecar) ended(words ...string) {
	s.t.Helper()
	stderr := s.stderr.String()
	if code := s.cmd.ProcessState.ExitCode(); code != 1 || strings.Contains(stderr, "goroutine ") {
		s.t.Errorf("exit code %d, want 1 and no panic: %s", code, stderr)
	}
	for _, word := range words {
		if !strings.Contains(stderr, word) {
			s.t.Errorf("it does not say %q: %s", word, stderr)
		}
	}
	s.t.Logf("it said: %s", strings.TrimSpace(stderr[max(0, len(stderr)-400):]))
}

// awaitEnd waits until the process ends by itself.
func (s *sidecar) awaitEnd() {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatalf("it goes on: %s", s.stderr.String())
	}
}

var desk = []string{"--pack", "testdata/crash.pack.yaml", "--allow-tool", "*"}

// TestStoppedProcess: SIGSTOP and SIGCONT under load; drivers and workers with what they
// hold find it again, also where leases ended meanwhile, and every total is right.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 5*patience)
	s := newSidecar(t, append([]string{"--pack", "testdata/count.json", "--lease", "1s"}, desk...)...)
	s.start()
	p := playAlong(ctx, t, s, 6)
	c := &counter{calls: map[string]int{}}
	defer c.startAlone(ctx, t, s)()
	started, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	driving, ended := context.WithCancel(ctx)
	go func() {
		p.wait.Wait()
		ended()
	}()
	for range 3 {
		play.AwaitCount(driving, t, &p.acknowledged, p.acknowledged.Load()+5) // The scripts may end before the workers' run.
		play.AwaitCount(ctx, t, &c.turns, min(c.turns.Load()+5, workerVisits))
		signalled(t, s, syscall.SIGSTOP)
		<-time.After(1200 * time.Millisecond) // Longer than a lease.
		signalled(t, s, syscall.SIGCONT)
	}
	run := started.GetRun().GetRunId()
	var got *pawlv1.WaitRunResponse
	eventually(t, "the run of workers ends", func() bool {
		got, err = s.runs().WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run})
		return err == nil && !got.GetTimedOut()
	})
	if r := got.GetRun(); r.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || r.GetTotalVisits() != workerVisits+1 || r.GetToolCalls() != workerVisits {
		t.Errorf("run %s ended %v (%s) with %d visits and %d calls", run, r.GetStatus(), r.GetReason(), r.GetTotalVisits(), r.GetToolCalls())
	}
	p.checkAcknowledged(ctx, t, s)
}

// startAlone starts workers for the count pack that leave all others alone.
func (c *counter) startAlone(ctx context.Context, t *testing.T, s *sidecar) (stop func()) {
	t.Helper()
	var stops []func()
	for _, cfg := range []pawl.WorkerConfig{
		{ID: "turns-1", Turns: 1, Prompts: map[string]pawl.TurnFunc{"counter": c.turn}},
		{ID: "turns-2", Turns: 1, Prompts: map[string]pawl.TurnFunc{"counter": c.turn}},
		{ID: "steps", Steps: 2, Tools: map[string]pawl.ToolFunc{"add": c.add}},
	} {
		stops = append(stops, startWorker(ctx, t, s, cfg))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func signalled(t *testing.T, s *sidecar, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.cmd.Process.Pid, sig); err != nil {
		t.Fatal(err)
	}
}

// TestBadDisk: a disk that is slow, becomes read-only or full: what is wrong is said,
// nothing that was acknowledged is missing afterwards.
func TestBadDisk(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]func(*testing.T, *onDisk){
		"slow": func(t *testing.T, o *onDisk) {
			o.start()
			o.disk.Set(powerdisk.Faults{Slow: 5 * time.Millisecond})
			ctx := deadline(t, 3*patience)
			p := playAlong(ctx, t, o.sidecar, 3)
			p.wait.Wait()
			o.disk.Set(powerdisk.Faults{})
			p.checkAcknowledged(ctx, t, o.sidecar)
		},
		"read-only at the first start": func(_ *testing.T, o *onDisk) {
			o.disk.Set(powerdisk.Faults{ReadOnly: true})
			o.checkRefusal("read-only file system", o.mount)
		},
		"read-only at a later start": func(t *testing.T, o *onDisk) {
			o.start()
			ctx := deadline(t, patience)
			p := playAlong(ctx, t, o.sidecar, 1)
			p.wait.Wait()
			o.kill()
			o.disk.Set(powerdisk.Faults{ReadOnly: true})
			o.checkRefusal("read-only file system", o.dir)
			o.disk.Set(powerdisk.Faults{})
			o.start()
			p.checkAcknowledged(ctx, t, o.sidecar)
		},
		"read-only under load": func(t *testing.T, o *onDisk) { o.checkBrokenDisk(t, powerdisk.Faults{ReadOnly: true}) },
		"full under load":      func(t *testing.T, o *onDisk) { o.checkBrokenDisk(t, powerdisk.Faults{Full: true, Free: 1 << 40}) },
		"read-only at the stop": func(t *testing.T, o *onDisk) {
			o.start()
			p := playAlong(deadline(t, patience), t, o.sidecar, 1)
			p.wait.Wait()
			o.disk.Set(powerdisk.Faults{ReadOnly: true})
			o.stop()
			o.ended("read-only file system", "nothing that was acknowledged is lost")
			o.repair(t)
			p.checkAcknowledged(deadline(t, patience), t, o.sidecar)
		},
		"nearly full": func(t *testing.T, o *onDisk) {
			o.start()
			ctx := deadline(t, patience)
			first, err := o.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "crash", VariablesJson: `{"topic":"x"}`, Execution: pawlv1.Execution_EXECUTION_CALLER})
			if err != nil {
				t.Fatal(err)
			}
			o.disk.Set(powerdisk.Faults{Free: 1 << 20})
			eventually(t, "new work is refused with DISK_LOW", func() bool {
				_, err := o.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "crash", VariablesJson: `{"topic":"x"}`, Execution: pawlv1.Execution_EXECUTION_CALLER})
				return play.Reason(err) == "DISK_LOW"
			})
			if _, err := o.runs().GetRun(ctx, &pawlv1.GetRunRequest{RunId: first.GetRun().GetRunId()}); err != nil {
				t.Errorf("a read on a disk that is nearly full: %v", err)
			}
			o.disk.Set(powerdisk.Faults{})
			eventually(t, "new work is taken again", func() bool {
				_, err := o.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "crash", VariablesJson: `{"topic":"x"}`, Execution: pawlv1.Execution_EXECUTION_CALLER})
				return err == nil
			})
			playAlong(ctx, t, o.sidecar, 1).checkAcknowledged(ctx, t, o.sidecar)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if o := newOnDisk(t, 1, desk...); o != nil {
				try(t, o)
			}
		})
	}
}

// checkBrokenDisk breaks the disk under load. The process reports this and ends. On a repaired disk
// everything is there and continues.
func (o *onDisk) checkBrokenDisk(t *testing.T, f powerdisk.Faults) {
	t.Helper()
	o.start()
	ctx := deadline(t, 3*patience)
	p := playAlong(ctx, t, o.sidecar, 4)
	play.AwaitCount(ctx, t, &p.acknowledged, 20)
	o.disk.Set(f)
	o.awaitEnd()
	o.ended("commit outcome unknown", "nothing that was acknowledged is lost")
	o.repair(t)
	p.checkAcknowledged(ctx, t, o.sidecar)
}

// repair repairs the disk, mounts it again and starts the sidecar. The kernel then reports data that
// it could not write earlier to the next caller of a sync.
func (o *onDisk) repair(t *testing.T) {
	t.Helper()
	o.disk.Set(powerdisk.Faults{})
	if err := errors.Join(o.unmount(), o.attach()); err != nil {
		t.Fatal(err)
	}
	o.start()
}

// TestFewDescriptors: with hardly any descriptors the start says so; with few, connections
// wait, those that are served go on, and nothing is lost.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	limited := func(n int) *sidecar {
		s := newSidecar(t, desk...)
		s.wrap = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, n), "sh"}
		return s
	}
	limited(8).checkRefusal("too many open files")
	s := limited(48)
	s.start()
	ctx := deadline(t, 3*patience)
	p := playAlong(ctx, t, s, 2)
	play.AwaitCount(ctx, t, &p.acknowledged, 5)
	var crowd []*grpc.ClientConn
	for range 100 {
		conn := s.dial()
		conn.Connect()
		crowd = append(crowd, conn)
	}
	eventually(t, "no descriptor is left", func() bool {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		return err == nil && len(fds) >= 47
	})
	play.AwaitCount(ctx, t, &p.acknowledged, p.acknowledged.Load()+10)
	for _, conn := range crowd {
		conn.Close()
	}
	late := s.dial()
	late.Connect()
	eventually(t, "connections are taken again", func() bool { return late.GetState() == connectivity.Ready })
	p.checkAcknowledged(ctx, t, s)
}

// TestLittleMemory: under a soft limit that is nearly what an idle process takes it works on;
// without room for its maps the start says so.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, desk...)
	s.wrap = []string{"env", "GOMEMLIMIT=40MiB"}
	s.start()
	ctx := deadline(t, 3*patience)
	p := playAlong(ctx, t, s, 4)
	p.wait.Wait()
	if memory, err := anonymous(s.cmd.Process.Pid); err != nil {
		t.Error(err)
	} else {
		t.Logf("%d MiB under GOMEMLIMIT=40MiB", memory>>20)
	}
	p.checkAcknowledged(ctx, t, s)
}

// TestCopyUnderLoad: a directory that was copied while it was written is refused by name, or
// opens and has everything that was acknowledged before the copy began; it is never served
// wrong.
func TestCopyUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 5*patience)
	s := newSidecar(t, desk...)
	s.start()
	var over atomic.Bool
	var load sync.WaitGroup
	var acked atomic.Int64
	var done sync.Map
	for n := range 4 {
		load.Go(func() {
			for script := n; !over.Load() && ctx.Err() == nil; script += 4 {
				d := &play.Driver{Client: s.runs(), Script: script + 1, Acked: &acked, Ledger: map[uint64][]byte{}}
				if err := d.Play(ctx); err != nil && !errors.Is(err, play.ErrRunEnded) {
					t.Errorf("script %d: %v", script, err)
					return
				}
				done.Store(d.Run, d.Ledger)
			}
		})
	}
	random, ends := rand.New(rand.NewPCG(1, 8)), map[string]int{}
	for n := range 2 {
		play.AwaitCount(ctx, t, &acked, acked.Load()+20+random.Int64N(100))
		before := map[string]map[uint64][]byte{}
		done.Range(func(run, ledger any) bool {
			before[run.(string)] = ledger.(map[uint64][]byte)
			return true
		})
		c := newSidecar(t, desk...)
		// A file that is removed meanwhile is missing from the copy: that, too, has to be named.
		if out, err := exec.Command("cp", "-r", "--sparse=auto", s.dir, c.dir).CombinedOutput(); err != nil {
			t.Logf("copied in part: %v: %s", err, out)
		}
		ends[opened(ctx, t, c, before)]++
		if n == 0 {
			// A copy is not the store: who holds that one does not hold this one.
			second := newSidecar(t, desk...)
			second.dir = s.dir
			second.checkRefusal("the data directory is in use by process", fmt.Sprint(s.cmd.Process.Pid))
		}
	}
	over.Store(true)
	load.Wait()
	t.Logf("copies under load: %v", ends)
}

// opened says what became of a copy.
func opened(ctx context.Context, t *testing.T, c *sidecar, before map[string]map[uint64][]byte) string {
	t.Helper()
	if _, err := c.tryStart(); err != nil {
		<-c.done
		c.ended("the store is damaged")
		return "refused"
	}
	for run, ledger := range before {
		for _, loss := range lostOf(ctx, c.runs(), run, ledger) {
			t.Errorf("a copy that opens: %s", loss)
		}
	}
	if code := c.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, c.stderr.String())
	}
	c.check()
	return "opened"
}

// TestOlderFormats: the process refuses a directory of each older format by its number and
// says what to do; migrated it is served, and one of its own format is served as it is.
func TestOlderFormats(t *testing.T) {
	t.Parallel()
	golden, err := filepath.Glob("../../internal/server/testdata/format-*")
	if err != nil || len(golden) < 2 {
		t.Fatalf("%v, %v", golden, err)
	}
	for _, from := range golden {
		t.Run(filepath.Base(from), func(t *testing.T) {
			t.Parallel()
			s := newSidecar(t)
			copyTree(t, from, s.dir)
			before := filesOf(t, s.dir)
			if _, err := s.tryStart(); err != nil {
				<-s.done
				// The database adds empty files when it is opened.
				after := filesOf(t, s.dir)
				for name, sum := range before {
					if after[name] != sum {
						t.Errorf("the refused start changed %s", name)
					}
				}
				format := strings.TrimPrefix(filepath.Base(from), "format-")
				s.ended("the store has format "+format+", this program reads format", "pawl migrate")
				if out, err := exec.Command(binary(t), "migrate", s.dir).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				s.start()
			}
			list, err := s.runs().ListRuns(deadline(t, patience), &pawlv1.ListRunsRequest{PageSize: 200})
			if err != nil || len(list.GetRuns()) != 7 {
				t.Errorf("%d runs, %v", len(list.GetRuns()), err)
			}
			if code := s.stop(); code != 0 {
				t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
			}
			s.check()
		})
	}
}
