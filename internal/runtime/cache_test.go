package runtime_test

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
)

func TestCacheKeepsToItsBytes(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	r := newRig(t, func(c *services.Config) { c.CacheBytes = limit })
	var runs []runtime.Answer
	for i := range 2000 {
		runs = append(runs, r.start(fmt.Sprint("s", i)))
	}
	slots, bytes := r.Cached()
	// One run of each of the 64 shards may stay, even if it is large.
	if bytes > limit+64*2000 || slots == 0 || slots >= len(runs) {
		t.Fatalf("%d runs in %d bytes are cached", slots, bytes)
	}
	newest := runs[len(runs)-1]
	if r.CachedState(0, newest.RunID) == nil {
		t.Fatal("the newest run is not cached")
	}
	// Every run goes on, evicted or not, and its token is still valid.
	for _, run := range runs {
		if got := r.emit(run.RunID, "Again", "e1", run.Turn.Token); got.State.Transitions != 2 {
			t.Fatalf("run %s made %d transitions", run.RunID, got.State.Transitions)
		}
	}
}

func TestIdleQueuesAreFreed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	if slots, _ := r.Cached(); slots != 1 {
		t.Fatalf("%d slots", slots)
	}
	done := r.emit(run.RunID, "Finish", "", run.Turn.Token)
	for i := range 100 {
		_, _ = r.EmitEvent(t.Context(), runtime.EmitRequest{RunRef: ref(fmt.Sprint("absent", i), everyone), Event: "X"})
	}
	if slots, _ := r.Cached(); slots != 1 {
		t.Fatalf("%d slots after inputs to absent runs", slots)
	}
	_, err := r.CompleteTurn(t.Context(), runtime.CompleteRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(run.RunID, everyone), TurnToken: done.Turn.Token},
	})
	if err != nil {
		t.Fatal(err)
	}
	if slots, bytes := r.Cached(); slots != 0 || bytes != 0 {
		t.Fatalf("%d slots, %d bytes after the only run ended", slots, bytes)
	}
}
