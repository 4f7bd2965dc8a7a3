package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// backUp has the command write a backup of the running sidecar.
func (s *sidecar) backUp(to string) {
	s.t.Helper()
	if out, err := s.command("backup", to, "--addr", "unix:"+s.socket).CombinedOutput(); err != nil {
		s.t.Fatalf("pawl backup: %v\n%s", err, out)
	}
}

func (s *sidecar) command(args ...string) *exec.Cmd { return exec.Command(binary(s.t), args...) }

// load starts runs for the workers until it is stopped, and remembers those that were
// acknowledged.
type load struct {
	mu    sync.Mutex
	runs  []string
	count atomic.Int64
}

func (l *load) begin(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for ctx.Err() == nil {
				got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_WORKERS})
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("start: %v", err)
					}
					return
				}
				l.mu.Lock()
				l.runs = append(l.runs, got.GetRun().GetRunId())
				l.mu.Unlock()
				l.count.Add(1)
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); group.Wait() })
}

// acknowledged are the runs so far.
func (l *load) acknowledged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.runs...)
}

// TestBackupUnderLoad: backups of a process that works, one of everything and two that
// follow, are of one moment each: what is restored is in order, has every run that was
// acknowledged before the last began, and goes on.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 5*patience)
	s := newSidecar(t, "--pack", "testdata/count.json", "--allow-tool", "*")
	s.start()
	stopWorkers := startCounters(ctx, t, s, &counter{calls: map[string]int{}})
	defer stopWorkers()
	l := &load{}
	stop := l.begin(ctx, t, s.runs())
	defer stop()
	kept := filepath.Join(t.TempDir(), "kept")
	var before []string
	for range 3 {
		play.AwaitCount(ctx, t, &l.count, l.count.Load()+10)
		before = l.acknowledged()
		s.backUp(kept)
	}
	stop()
	stopWorkers()
	s.stop()
	s.check()

	again := newSidecar(t, "--pack", "testdata/count.json", "--allow-tool", "*")
	out, err := s.command("restore", kept, "--data", again.dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "restored from 3 backups") {
		t.Fatalf("pawl restore: %v\n%s", err, out)
	}
	again.check()
	again.start()
	runs := again.runs()
	// A run whose step a worker had at the moment of the backup fails, because it is unknown
	// whether the tool ran. Runs between two steps make further visits.
	visits := func() (sum int32) {
		for _, id := range before {
			got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: id})
			if err != nil {
				t.Errorf("run %s was acknowledged before the last backup began: %v", id, err)
			}
			sum += got.GetRun().GetTotalVisits()
		}
		return sum
	}
	restored := visits()
	defer startCounters(ctx, t, again, &counter{calls: map[string]int{}})()
	eventually(t, "the runs go on", func() bool { return t.Failed() || visits() > restored+int32(len(before)) })
	t.Logf("%d runs were acknowledged before the last backup, %d in all", len(before), len(l.acknowledged()))
}

// stored gives a sidecar so many blobs of 1 MiB that no connection has them all under way.
func (s *sidecar) stored(ctx context.Context) {
	s.t.Helper()
	runs := s.runs()
	for n := range 40 {
		stream, err := runs.PutBlob(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		piece := make([]byte, 1<<20)
		noise := uint64(n + 1)
		for i := range piece {
			noise ^= noise << 13
			noise ^= noise >> 7
			noise ^= noise << 17
			piece[i] = byte(noise)
		}
		if err := stream.Send(&pawlv1.PutBlobRequest{MediaType: "text/plain", Data: piece, Last: true}); err != nil {
			s.t.Fatal(err)
		}
		if _, err := stream.CloseAndRecv(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestBrokenBackup checks backups during which the sidecar or the command is killed. No partial
// backup is mistaken for a complete one, and the next backup is complete. Only one backup is made
// at a time. A backup whose caller disconnected ends.
func TestBrokenBackup(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 5*patience)
	s := newSidecar(t)
	s.start()
	s.stored(ctx)
	intact := filepath.Join(t.TempDir(), "kept")
	names := func() (complete, partial []string) {
		entries, err := os.ReadDir(intact)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".pawlbackup") {
				complete = append(complete, e.Name())
			} else if e.Name() != "LOCK" {
				partial = append(partial, e.Name())
			}
		}
		return complete, partial
	}
	// No reader reads on, so the backup stays in its middle.
	store := pawlv1.NewStoreServiceClient(s.dial())
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := store.Backup(held, &pawlv1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cmd := s.command("backup", intact, "--addr", "unix:"+s.socket)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "STORE_BUSY") {
		t.Errorf("a second one at once: %v\n%s", err, out)
	}
	cancel()
	eventually(t, "the first is over", func() bool {
		again, err := store.Backup(ctx, &pawlv1.BackupRequest{})
		if err == nil {
			_, err = again.Recv()
		}
		if play.Reason(err) == "STORE_BUSY" {
			return false
		}
		// Read to its end, so that none is under way.
		for err == nil {
			_, err = again.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return true
	})
	for _, kill := range []string{"sidecar", "command"} {
		cmd := s.command("backup", intact, "--addr", "unix:"+s.socket)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a part of it is written", func() bool {
			part, err := filepath.Glob(filepath.Join(intact, ".backup-*"))
			if err != nil || len(part) == 0 {
				return false
			}
			info, err := os.Stat(part[0])
			return err == nil && info.Size() > 0
		})
		if kill == "sidecar" {
			s.kill()
		} else if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		complete, partial := names()
		if err == nil && len(complete) == 1 {
			t.Skip("it was written before it could be killed")
		}
		if len(complete) > 0 {
			t.Errorf("the %s was killed, and there is %v", kill, complete)
		}
		t.Logf("the %s was killed: %v, left %v", kill, err, partial)
		if kill == "sidecar" {
			s.start()
		}
	}
	s.backUp(intact)
	if complete, partial := names(); len(complete) != 1 || len(partial) != 0 {
		t.Errorf("in the end there are %v and %v", complete, partial)
	}
	data := filepath.Join(t.TempDir(), "again")
	if out, err := s.command("restore", intact, "--data", data).CombinedOutput(); err != nil {
		t.Errorf("pawl restore: %v\n%s", err, out)
	}
}
