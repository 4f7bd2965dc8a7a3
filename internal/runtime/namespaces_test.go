package runtime_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// TestUnknownNamespaceNamesTheOthers: a caller that names an unknown namespace receives the
// list of the existing ones.
func TestUnknownNamespaceNamesTheOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Views.ListRuns(t.Context(), query.ListRunsRequest{Call: runtime.Call{Namespace: "othr", Principal: boss}})
	refusal, ok := errors.AsType[*machine.Error](err)
	if !ok || refusal.Reason != "NAMESPACE_NOT_FOUND" || !slices.Equal(refusal.Allowed, []string{"default", "other"}) {
		t.Fatalf("ListRuns: %v, %+v", err, refusal)
	}
	for number, want := range map[uint32]string{0: "default", 7: "other", 8: ""} {
		if got := r.Engine.NamespaceName(number); got != want {
			t.Errorf("the name of %d is %q, want %q", number, got, want)
		}
	}
}
