package rules

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Bytes are compared as bytes: a check once made a path for each of them, and
// proved 5 MB a second.
func TestReplayComparesBytesAtOnce(t *testing.T) {
	record := func(change int) []machine.Record {
		value := bytes.Repeat([]byte("x"), 64<<10)
		if change >= 0 {
			value[change] = 'y'
		}
		return []machine.Record{{Seq: 7, Body: &machine.Transition{Artifacts: []machine.ArtifactWrite{{Name: "plan"}, {Name: "report", Value: value}}}}}
	}
	one, same, other := record(-1), record(-1), record(40_000)
	allocs := testing.AllocsPerRun(5, func() {
		if err := compareRecords(7, one, same); err != nil {
			t.Error(err)
		}
	})
	if allocs > 100 {
		t.Errorf("%v allocations for two records that are equal", allocs)
	}
	err := compareRecords(7, one, other)
	bad, ok := errors.AsType[*ReplayError](err)
	if !ok || bad.Seq != 7 || !strings.HasSuffix(bad.Detail, "differ at .Body.Artifacts[1].Value[40000]") {
		t.Errorf("%v", err)
	}
}
