package e2e

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/bench/load/dialogue"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestWhatWasSaidIsStoredOnce checks that a turn of 100 rounds takes at most 2 MB, although every
// round shows the model the whole conversation of up to 840 KB. It measures the values of the
// store, and its files after they were rewritten.
func TestWhatWasSaidIsStoredOnce(t *testing.T) {
	t.Parallel()
	const most = 2_000_000
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := newSidecar(t, "--pack", clerk)
	s.start()
	got, err := dialogue.Run(ctx, s.dial(), dialogue.Job{Pack: "clerk", Rounds: 100, Bytes: 4200})
	if err != nil {
		t.Fatal(err)
	}
	if got.NewBytes != 840_000 || got.Stored < got.NewBytes || got.Stored > most {
		t.Errorf("%d B are stored of %d B that were said, want at most %d", got.Stored, got.NewBytes, most)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
	out, err := s.command("compact", s.dir, "-o", "json").Output()
	if err != nil {
		t.Fatalf("pawl compact: %v\n%s", err, out)
	}
	var files struct {
		After int64 `json:"bytes_after"`
	}
	if err := json.Unmarshal(out, &files); err != nil || files.After < got.NewBytes/2 || files.After > most {
		t.Errorf("%v: the files hold %d B, want at most %d: %s", err, files.After, most, out)
	}
	t.Logf("%d B said, %d B of values, %d B of files", got.NewBytes, got.Stored, files.After)
}

// TestRunFilesHoldCallsOfModels: another sidecar that imports a run's file shows each call of a
// model as the first one does, byte for byte, and so does a fork of it there.
func TestRunFilesHoldCallsOfModels(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	from, to := newSidecar(t, "--pack", clerk), newSidecar(t, "--pack", clerk)
	from.start()
	to.start()
	const rounds = 21
	if _, err := dialogue.Run(ctx, from.dial(), dialogue.Job{Pack: "clerk", Rounds: rounds, Bytes: 50}); err != nil {
		t.Fatal(err)
	}
	list, err := from.runs().ListRuns(ctx, &pawlv1.ListRunsRequest{})
	if err != nil || len(list.GetRuns()) != 1 {
		t.Fatal(list, err)
	}
	run, file := list.GetRuns()[0].GetRunId(), filepath.Join(t.TempDir(), "run")
	for _, args := range [][]string{
		{"runs", "export", run, file, "--format", "file", "--addr", "unix:" + from.socket}, {"runs", "verify", file},
		{"runs", "import", file, "--addr", "unix:" + to.socket}, {"runs", "verify", run, "--addr", "unix:" + to.socket},
	} {
		if out, err := from.command(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	fork, err := to.runs().ForkRun(ctx, &pawlv1.ForkRunRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	modelStep := func(s *sidecar, run string, step uint32) *pawlv1.GetModelStepResponse {
		got, err := s.runs().GetModelStep(ctx, &pawlv1.GetModelStepRequest{RunId: run, Step: step})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, step := range []uint32{1, rounds} {
		want := modelStep(from, run, step)
		if got := modelStep(to, run, step); !proto.Equal(got, want) || len(want.GetMessages()) != int(2*step-1) {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
		copied := modelStep(to, fork.GetRun().GetRunId(), step)
		if !slices.EqualFunc(copied.GetMessages(), want.GetMessages(), func(a, b *pawlv1.Message) bool { return proto.Equal(a, b) }) ||
			!proto.Equal(copied.GetStep().GetModel().GetAnswer(), want.GetStep().GetModel().GetAnswer()) {
			t.Errorf("step %d of the fork: %v, want %v", step, copied, want)
		}
	}
}
