package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/bench/dialogue"
)

// TestWhatWasSaidIsStoredOnce: a turn of 100 rounds over a conversation that grows to 840 KB,
// of which every round shows the model all, takes at most 2 MB: as values of the store, and
// in its files once they are written anew.
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
	if got.Said != 840_000 || got.Stored < got.Said || got.Stored > most {
		t.Errorf("%d B are stored of %d B that were said, want at most %d", got.Stored, got.Said, most)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
	out, err := s.command("compact", s.dir, "-o", "json").Output()
	if err != nil {
		t.Fatalf("sidecar compact: %v\n%s", err, out)
	}
	var files struct {
		After int64 `json:"bytes_after"`
	}
	if err := json.Unmarshal(out, &files); err != nil || files.After < got.Said/2 || files.After > most {
		t.Errorf("%v: the files hold %d B, want at most %d: %s", err, files.After, most, out)
	}
	t.Logf("%d B said, %d B of values, %d B of files", got.Said, got.Stored, files.After)
}
