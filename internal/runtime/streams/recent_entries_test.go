package streams

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestTailServesOnlyWithoutGaps puts entries in random order into a small tail and reads from
// random places: the entries that the tail returns follow directly.
func TestTailServesOnlyWithoutGaps(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	tl := newRecentEntries(200 << 10)
	published := uint64(0)
	for range 200 {
		burst := rng.IntN(100) + 1
		if rng.IntN(20) == 0 {
			published += tailSlots + uint64(rng.IntN(tailSlots))
		}
		for _, i := range rng.Perm(burst) {
			tl.put(machine.Entry{Cursor: published + uint64(i) + 1, Records: make([]machine.Record, 1)})
		}
		published += uint64(burst)
		if tl.bytes > tl.limit {
			t.Fatalf("%d bytes are held, at most %d", tl.bytes, tl.limit)
		}
		after := published - min(published, uint64(rng.IntN(400)))
		entries := tl.after(after, machine.Page{Records: 50, Bytes: 1 << 20})
		if len(entries) > 50 {
			t.Fatalf("%d entries in a page of 50", len(entries))
		}
		for i, e := range entries {
			if e.Cursor != after+uint64(i)+1 {
				t.Fatalf("after %d, entry %d is %d", after, i, e.Cursor)
			}
		}
		if newest := tl.after(published-1, watchPage); len(newest) != 1 {
			t.Fatalf("the newest entry is not held")
		}
	}
}

func TestConfigListsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{TailBytes: -1, Bytes: -1, Heartbeat: -1})
	if err == nil {
		t.Fatal("the configuration was taken")
	}
	for _, word := range []string{"required", "TailBytes", "WatchBytes", "Heartbeat"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no fault of %s in: %v", word, err)
		}
	}
}

// TestTailForgetsARun: the entries of a run that was deleted are not served; all others are.
func TestTailForgetsARun(t *testing.T) {
	t.Parallel()
	tl := newRecentEntries(1 << 20)
	for i, run := range []string{"kept", "gone", "gone", "kept"} {
		tl.put(machine.Entry{RunID: run, Cursor: uint64(i) + 1, Records: make([]machine.Record, 1)})
	}
	tl.forget("gone")
	for after, want := range []int{1, 0, 0, 1, 0} {
		if got := tl.after(uint64(after), watchPage); len(got) != want {
			t.Errorf("after %d are %d entries, want %d", after, len(got), want)
		}
	}
	if one := entryBytes(&machine.Entry{Records: make([]machine.Record, 1)}); tl.bytes != 2*one {
		t.Errorf("%d bytes are held, want those of two entries, %d", tl.bytes, 2*one)
	}
}

// TestHubForgetsALateEntry: the hub receives the last commit of a run after the run was deleted. It
// does not serve this commit, before or behind another one, nor to a later subscriber.
func TestHubForgetsALateEntry(t *testing.T) {
	t.Parallel()
	h := newHub(1 << 20)
	sub := h.subscribe(runtime.RunKey{})
	cursor := uint64(0)
	told := func(run string) {
		cursor++
		h.OnCommit(&runtime.Commit{
			Key:   runtime.RunKey{ID: run},
			Entry: machine.Entry{RunID: run, Cursor: cursor, Records: make([]machine.Record, 1)},
		})
	}
	told("kept")
	h.forget(runtime.RunKey{ID: "gone"})
	told("gone")
	for after, want := range []int{1, 0} {
		if got := sub.feed.recent.after(uint64(after), watchPage); len(got) != want {
			t.Errorf("after %d are %d entries, want %d", after, len(got), want)
		}
	}
	h.unsubscribe(sub)
	sub = h.subscribe(runtime.RunKey{})
	told("gone")
	told("kept")
	if got := sub.feed.recent.after(2, watchPage); len(got) != 0 {
		t.Errorf("a late entry is served: %v", got)
	}
	if got := sub.feed.recent.after(3, watchPage); len(got) != 1 {
		t.Errorf("what is kept is not served: %v", got)
	}
}
