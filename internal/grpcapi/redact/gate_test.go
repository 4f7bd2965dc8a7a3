package redact

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// oneRun has the only run that can be seen.
type oneRun struct{ pack *pack.Pack }

func (o oneRun) PackOf(context.Context, string, *machine.State) (*pack.Pack, error) {
	return o.pack, nil
}

func (o oneRun) PackFor(_ context.Context, ref runtime.RunRef) (*machine.State, *pack.Pack, error) {
	if ref.RunID != "run" {
		return nil, nil, &machine.Error{Code: machine.CodeNotFound}
	}
	return &machine.State{RunID: ref.RunID}, o.pack, nil
}

func loaded(t *testing.T, file string) *pack.Pack {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, found, err := pack.Load(text, pack.Options{})
	if err != nil || p == nil {
		t.Fatal(found, err)
	}
	return p
}

// TestLiveOutputAndCopiesAreWholeOrNothing: only a principal that may read the sensitive values of a run gets
// its live output and complete copies of it. If the run has no sensitive values, all readers get them.
func TestLiveOutputAndCopiesAreWholeOrNothing(t *testing.T) {
	t.Parallel()
	sensitive, open := loaded(t, "../../../test/e2e/testdata/sensitive.pack.yaml"), loaded(t, "../../../test/e2e/testdata/loop.pack.yaml")
	reader := runtime.Call{Principal: runtime.Principal{Scopes: runtime.ScopeRunsRead}}
	auditor := runtime.Call{Principal: runtime.Principal{Scopes: runtime.ScopeRunsRead | runtime.ScopeValuesSensitive}}
	for _, c := range []struct {
		name string
		pack *pack.Pack
		ref  runtime.RunRef
		told bool
	}{
		{"a reader of a sensitive run", sensitive, runtime.RunRef{Call: reader, RunID: "run"}, false},
		{"an auditor of it", sensitive, runtime.RunRef{Call: auditor, RunID: "run"}, true},
		{"a reader of an open run", open, runtime.RunRef{Call: reader, RunID: "run"}, true},
		{"a reader of a run that is not seen", open, runtime.RunRef{Call: reader, RunID: "other"}, false},
	} {
		gate := Gate{Views: oneRun{pack: c.pack}}
		if live := gate.Live(t.Context(), c.ref); live != c.told {
			t.Errorf("%s is told its output while it is written: %v", c.name, live)
		}
		err := gate.CheckUnredacted(t.Context(), c.ref, "")
		var refusal *machine.Error
		if c.told != (err == nil) || err != nil && !errors.As(err, &refusal) {
			t.Errorf("%s is told all of it: %v", c.name, err)
		}
		if c.ref.RunID == "run" && !c.told && (refusal == nil || refusal.Reason != "SENSITIVE_VALUES") {
			t.Errorf("%s is refused by %v", c.name, err)
		}
	}
}
