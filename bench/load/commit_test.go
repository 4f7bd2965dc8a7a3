package load

import (
	"bytes"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/bench/load/template"
	"github.com/pawl-dev/pawl/internal/store"
)

func TestCapturedTransitionHasTwoKeys(t *testing.T) {
	t.Parallel()
	got, err := capture(t.Context(), t.TempDir(), artifactBytes)
	if err != nil {
		t.Fatal(err)
	}
	if got.Keys() != 2 || got.Bytes() < artifactBytes {
		t.Errorf("%d keys, %d bytes; want 2 keys and more than the artifact's %d", got.Keys(), got.Bytes(), artifactBytes)
	}
}

// TestReplayedKeysAreAllStored proves that the yardsticks write as many keys as
// they claim: none of two runs or two transitions overwrites another.
func TestReplayedKeysAreAllStored(t *testing.T) {
	t.Parallel()
	tmpl, err := capture(t.Context(), t.TempDir(), artifactBytes)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for run := range 3 {
		for n := range 10 {
			for _, p := range tmpl.Fill(template.Identity{
				Run: replayedRun(run), ID: eventID(run, n), First: uint64(n) * tmpl.Records(),
			}) {
				keys[string(p.Key)] = true
			}
		}
	}
	if want := 3 * 10 * tmpl.Keys(); len(keys) != want {
		t.Errorf("%d distinct keys, want %d", len(keys), want)
	}
}

func TestCommitsOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"naive", "bare", "engine"} {
		got, err := runCommits(t.Context(), commitJob{
			Kind: kind, Dir: t.TempDir(), Writers: 4, Warm: time.Millisecond, Window: 100 * time.Millisecond, Bytes: artifactBytes,
		})
		if err != nil || got.Count == 0 {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
	if _, err := runCommits(t.Context(), commitJob{Kind: "other", Dir: t.TempDir()}); err == nil {
		t.Error("an unknown kind was run")
	}
}

// BenchmarkEngineTransition is one run, one transition at a time, synced.
func BenchmarkEngineTransition(b *testing.B) {
	l, err := openLocal(b.Context(), b.TempDir(), localOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.close()
	c := &engineClient{local: l, value: bytes.Repeat([]byte("v"), artifactBytes)}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.once(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareCommit is the same keys and bytes without the engine.
func BenchmarkBareCommit(b *testing.B) {
	tmpl, err := capture(b.Context(), b.TempDir(), artifactBytes)
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.NewBareCommitter(store.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	run := &replayer{template: tmpl, commit: bareCommit(s)}
	b.ReportAllocs()
	for b.Loop() {
		if err := run.once(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
