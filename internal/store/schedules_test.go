package store

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// TestAgenda: the marks of schedules are the same after a restart, and each namespace has its own. A check
// reports a mark that cannot be read.
func TestAgenda(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	s, err := openOn(t, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := machine.ScheduleMark{ID: "a", Rule: "@daily UTC", After: 5, Principal: "p", RunID: "r", At: 5, Fired: 3, Missed: 2, Skipped: 1}
	other := machine.ScheduleMark{Namespace: 1, ID: "a", Rule: "@hourly UTC", After: -1}
	for _, m := range []machine.ScheduleMark{{ID: "a"}, want, other, {ID: "gone"}} {
		if err := s.Schedules().Put(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Schedules().Drop(ctx, machine.ScheduleMark{ID: "gone"}), s.Schedules().Drop(ctx, machine.ScheduleMark{ID: "none"}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = openOn(t, Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	marks, err := s.Schedules().Marks(ctx)
	if err != nil || len(marks) != 2 || marks[0] != want || marks[1] != other {
		t.Fatalf("%+v, %v", marks, err)
	}
	bad := &Writes{entry: -1, ops: []layout.Op{{Key: layout.ScheduleKey(0, "bad"), Value: []byte{9}}}}
	if err := s.write(ctx, bad); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedules().Marks(ctx); err == nil {
		t.Error("a row that is none was read")
	}
	_, err = s.Check(ctx, nil)
	if fault, ok := errors.AsType[*check.Fault](err); !ok || fault.Row != "schedule" {
		t.Errorf("check tells %v", err)
	}
}
