package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// TestRetentionUnderKills: rules delete ended runs while the sidecar is killed. What is
// deleted has its file, whole, and its line in the audit; what a rule keeps, or what goes
// on, is there; and nothing is left over.
func TestRetentionUnderKills(t *testing.T) {
	t.Parallel()
	const kills, clients, each, files = 6, 4, 48, 15
	archive, trail := filepath.Join(t.TempDir(), "archive"), filepath.Join(t.TempDir(), "audit")
	s, ctx := newSidecar(t, "--pack", "testdata/loop.pack.yaml", "--audit", trail, "--retention-every", "1s", "--retention-grace", "1s",
		"--retain", "label=hold=1 keep=true", "--retain", "name=old older_than=1s archive="+archive), deadline(t, 6*patience)
	s.start()
	client := s.runs()
	remaining := &retained{runs: map[string]string{}}
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := range each {
				if err := remaining.live(ctx, client, fmt.Sprintf("%d-%d", n, i), i%8); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range kills {
		// Kills come in the middle of it.
		awaitFiles(ctx, t, archive, (n+1)*files)
		s.kill()
		s.start()
	}
	all.Wait()
	remaining.settle(ctx, t, client)
	s.kill()
	s.check()
	lines := auditedRuns(t, trail)
	for run, kind := range remaining.runs {
		files, _ := filepath.Glob(filepath.Join(archive, "default", run+".*.pawlrun"))
		switch {
		case kind != "ended" && len(files) > 0:
			t.Errorf("%s, which is kept (%s), has a file", run, kind)
		case kind == "ended" && (len(files) != 1 || !lines[run]):
			t.Errorf("%s was deleted: files %v, in the audit %v", run, files, lines[run])
		case kind == "ended":
			if out, err := exec.CommandContext(ctx, binary(t), "runs", "verify", files[0]).CombinedOutput(); err != nil {
				t.Errorf("the file of %s: %v: %s", run, err, out)
			}
		}
	}
	t.Logf("%d kills, %d runs, %d files", kills, len(remaining.runs), len(archivedFiles(t, archive)))
}

// retained are the runs of the test: whether each has ended, is held or goes on.
type retained struct {
	mu   sync.Mutex
	runs map[string]string
}

// live starts a run: one in eight is held by a label, one goes on.
func (l *retained) live(ctx context.Context, client pawlv1.RunServiceClient, id string, kind int) error {
	req := startOfLife(id)
	if kind == 0 {
		req.Labels = map[string]string{"hold": "1"}
	}
	started, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) { return client.StartRun(ctx, req) })
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	run, became := started.GetRun().GetRunId(), "ended"
	if kind == 1 {
		became = "goes on"
	} else {
		_, err = play.Retry(ctx, func(ctx context.Context) (*pawlv1.CancelRunResponse, error) {
			return client.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run, RequestId: "end"})
		})
		// The answer may be lost, and the run deleted meanwhile.
		if err != nil && play.Reason(err) != "RUN_DELETED" {
			return fmt.Errorf("cancel: %w", err)
		}
	}
	if kind == 0 {
		became = "held"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run] = became
	return nil
}

// settle waits until what has ended is deleted, and asks for everything else.
func (l *retained) settle(ctx context.Context, t *testing.T, client pawlv1.RunServiceClient) {
	t.Helper()
	for run, kind := range l.runs {
		for {
			_, err := client.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
			if kind == "ended" && play.Reason(err) == "RUN_DELETED" || kind != "ended" && err == nil {
				break
			}
			if err != nil {
				t.Fatalf("%s, which %s: %v", run, kind, err)
			}
			yield(ctx)
		}
	}
}

func archivedFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "default", "*.pawlrun"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func awaitFiles(ctx context.Context, t *testing.T, dir string, want int) {
	t.Helper()
	for len(archivedFiles(t, dir)) < want {
		if ctx.Err() != nil {
			t.Fatalf("never: %d archived runs", want)
		}
		yield(ctx)
	}
}

// yield lets the processes work that a condition is waited for of.
func yield(ctx context.Context) {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
	}
}

// auditedRuns are the runs that lines of the audit say retention has deleted.
func auditedRuns(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var e struct{ Method, Resource, Principal, Outcome, Note string }
			// The last line may be torn by the kill.
			if json.Unmarshal(line, &e) == nil && e.Method == "retention" && e.Principal == "retention" {
				runs[e.Resource] = true
			}
		}
	}
	return runs
}
