package history

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestForgettingARunLeavesOthers: what is remembered of a run goes with it, all of it, and
// nothing of another; many artifacts without a byte are bounded, too.
func TestForgettingARunLeavesOthers(t *testing.T) {
	t.Parallel()
	s := newSegments()
	runs := []machine.RunKey{{ID: "a"}, {ID: "b"}, {Namespace: 1, ID: "a"}}
	names := []string{"draft", "notes"}
	for _, run := range runs {
		for _, name := range names {
			s.keep(segmentKey{run: run, name: name}, []segment{{last: 64, value: []byte("x")}})
		}
	}
	s.forget(runs[0])
	for i, run := range runs {
		for _, name := range names {
			if held := len(s.upTo(segmentKey{run: run, name: name}, 64)); (held == 0) != (i == 0) {
				t.Errorf("%v %s: %d segments", run, name, held)
			}
		}
	}
	s.keep(segmentKey{run: runs[0], name: "empty"}, []segment{{last: 64}})
	if got := s.cached.Weight(); got != 4*(listBytes+1)+listBytes {
		t.Errorf("they weigh %d", got)
	}
}
