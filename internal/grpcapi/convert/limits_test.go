package convert

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
)

// TestFaultOfAScheduleTellsNothingInternal: a caller sees why a schedule starts no run, except for an internal error.
func TestFaultOfAScheduleTellsNothingInternal(t *testing.T) {
	t.Parallel()
	rule, err := schedule.ParseCron("@daily", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err             error
		reason, message string
	}{
		{&machine.Error{Code: machine.CodeNotFound, Reason: "PACK_NOT_FOUND", Message: "no such pack"}, "PACK_NOT_FOUND", "no such pack"},
		{&machine.Error{Code: machine.CodeInternal, Reason: "GRAPH_MISMATCH", Message: "secret"}, "", "the run could not be started"},
		{errors.New("secret"), "", "the run could not be started"},
	} {
		got := SchedulesToProto([]schedule.ListedSchedule{{
			Schedule: &schedule.Schedule{Rule: rule}, Fault: &schedule.Fault{Attempts: 1, Err: c.err},
		}}).GetSchedules()[0].GetFault()
		if got.GetReason() != c.reason || got.GetMessage() != c.message {
			t.Errorf("%v: %q %q", c.err, got.GetReason(), got.GetMessage())
		}
	}
}
