package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestAcknowledgementFollowsSync runs the sidecar under strace, where there is
// one, and reads off its system calls that between the arrival of a request and
// its acknowledgement a sync of the log has returned.
func TestAcknowledgementFollowsSync(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Log("no strace on this machine; internal/store proves the order at its own seam")
		return
	}
	s := newSidecar(t, "--pack", "testdata/loop.pack.yaml")
	trace := filepath.Join(filepath.Dir(s.socket), "trace")
	s.wrap = []string{"strace", "-f", "-q", "-s", "2048", "-o", trace,
		"-e", "trace=read,write,msync,fsync,fdatasync"}
	s.start()
	const marks = 40
	emitMarks(t, s.runs(), marks)
	s.kill()
	checkOrder(t, trace, marks)
}

// emitMarks makes transitions whose artifact, a mark, is in request and answer.
func emitMarks(t *testing.T, client pawlv1.RunServiceClient, marks int) {
	ctx := deadline(t, patience)
	start, err := client.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER,
	})
	if err != nil {
		t.Fatal(err)
	}
	turn := start.Turn
	for i := range marks {
		text := &pawlv1.ArtifactValue_Text{Text: mark(i)}
		answer, err := client.EmitEvent(ctx, &pawlv1.EmitEventRequest{
			RunId: start.Run.RunId, Event: "Again", TurnToken: turn.Token, EventId: fmt.Sprint(i),
			Artifacts: []*pawlv1.ArtifactWrite{{Name: "mark", Value: &pawlv1.ArtifactValue{Value: text}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		turn = answer.Turn
	}
}

func mark(i int) string { return fmt.Sprintf("<<mark-%04d>>", i) }

var (
	synced        = regexp.MustCompile(`^\d+ +(?:(?:msync|fsync|fdatasync)\(.*|<\.\.\. (?:msync|fsync|fdatasync) resumed>.*)= 0$`)
	markerPattern = regexp.MustCompile(`<<mark-\d{4}>>`)
)

// checkOrder reads the trace line by line: request with the mark, a sync that
// returned 0, answer with the mark.
func checkOrder(t *testing.T, trace string, marks int) {
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	arrived, answered := map[string]bool{}, 0
	syncedSince := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if synced.MatchString(line) {
			for m := range arrived {
				syncedSince[m] = true
			}
			continue
		}
		for _, m := range markerPattern.FindAllString(line, -1) {
			switch {
			case !strings.Contains(line, "write(") && !strings.Contains(line, "write resumed"):
				arrived[m] = true
			case !arrived[m] || !syncedSince[m]:
				t.Fatalf("%s was acknowledged before a sync: %s", m, line)
			default:
				delete(arrived, m)
				answered++
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if answered != marks {
		t.Errorf("saw %d acknowledgements in the trace, want %d", answered, marks)
	}
}

// TestDrain proves that SIGTERM lets a call under way finish and that the run
// goes on after a restart.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--pack", "testdata/loop.pack.yaml")
	s.start()
	client := s.runs()
	ctx := deadline(t, patience)
	start, err := client.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "one",
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		short, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := client.WaitRun(short, &pawlv1.WaitRunRequest{RunId: start.Run.RunId})
		waiting <- err
	}()
	from := time.Now()
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	t.Logf("drained in %v", time.Since(from))
	s.start()
	again, err := client.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "loop", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "one",
	})
	if err != nil || !again.Duplicate || again.Run.RunId != start.Run.RunId {
		t.Errorf("the same request_id after a restart: %v, %v", again, err)
	}
	turn, err := client.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: start.Run.RunId})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := client.EmitEvent(ctx, &pawlv1.EmitEventRequest{
		RunId: start.Run.RunId, Event: "Stop", TurnToken: turn.Turn.Token, EventId: "stop",
	})
	if err != nil || stop.State != "end" {
		t.Errorf("EmitEvent after a restart: %v, %v", stop, err)
	}
	select {
	case <-waiting:
	case <-time.After(patience):
		t.Error("WaitRun hangs after the drain")
	}
}
