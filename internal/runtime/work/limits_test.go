package work_test

import (
	stdruntime "runtime"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/condition"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/admission"
)

// limit puts one entry about tools in force.
func (r *rig) limit(concurrent int64) {
	r.t.Helper()
	language, err := admission.Language()
	if err != nil {
		r.t.Fatal(err)
	}
	l := &admission.Limit{ID: "tests", Source: "tool", Concurrent: concurrent}
	if l.Key, err = language.Compile(l.Source, condition.Text); err != nil {
		r.t.Fatal(err)
	}
	r.Admission.Replace(&admission.Table{Tenant: "tenant", Limits: []*admission.Limit{l}})
}

// until waits for what other goroutines do.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for over := time.Now().Add(within); !holds(); stdruntime.Gosched() {
		if time.Now().After(over) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// TestStepsWaitForLimits: of a tool's pending steps as many are handed out as the operator
// allows, the others are the run's own wait; an answer lets the next one go, and after a
// restart those that a worker has count.
func TestStepsWaitForLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limit(1)
	r.background()
	w := r.connect("w")
	w.Credit(3, 8)
	run := r.startWorkers("a").RunID
	turn := w.turn()
	if _, err := w.request(turn, "1", "2", "3"); err != nil {
		t.Fatal(err)
	}
	key := runtime.RunKey{ID: run}
	for left := 2; left >= 0; left-- {
		step := await(t, "a step", w.steps)
		until(t, "the others wait", func() bool { return len(r.Admission.Waiting(key)) == left })
		for _, wait := range r.Admission.Waiting(key) {
			if wait.Tool != "run_tests" || wait.Limits[0] != "tests" {
				t.Errorf("%+v", wait)
			}
		}
		nothing(t, "a second step", w.steps)
		if _, err := w.resolve(step, `1`); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "no place is taken", func() bool { f := r.Admission.Figures(); return len(f) == 1 && f[0].Open == 0 })
}
