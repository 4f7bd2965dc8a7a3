package machine

import (
	"fmt"
	"strconv"
)

// Calls and events that wait for a person have rows in an index. The rows are ordered by the time at
// which the wait began.

// HeldIndex is the name of the index of calls and events that wait for a person.
const HeldIndex = "held"

// HeldValueLen is the length of a row's value: 16 hex digits for the time and 8 for the step.
const HeldValueLen = 24

// HeldValue returns the value of a row. Values are ordered by time, then by step.
func HeldValue(since int64, step uint32) string { return fmt.Sprintf("%016x%08x", uint64(since), step) }

// ParseHeldValue is the inverse of HeldValue.
func ParseHeldValue(value string) (since int64, step uint32, err error) {
	if len(value) != HeldValueLen {
		return 0, 0, fmt.Errorf("malformed value %q of the index %s", value, HeldIndex)
	}
	at, err := strconv.ParseUint(value[:16], 16, 63)
	if err != nil {
		return 0, 0, fmt.Errorf("malformed value %q of the index %s: %w", value, HeldIndex, err)
	}
	n, err := strconv.ParseUint(value[16:], 16, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("malformed value %q of the index %s: %w", value, HeldIndex, err)
	}
	return int64(at), uint32(n), nil
}

// HeldPlace is one row of the index [HeldIndex].
type HeldPlace struct{ Value, Run string }

// HeldRow is one decision or event that a run waits for. If Step is 0, the run waits for an event from
// outside. Otherwise it waits for a decision about the call of that step.
type HeldRow struct {
	Since int64
	Step  uint32
}

// HeldRows returns the decisions and events that a run waits for. If the run has held calls, it returns
// a row for each of them. If it has none, and its open turn waits for a person and not for an executor,
// it returns one row for the event.
func HeldRows(s *State) []HeldRow {
	var rows []HeldRow
	asks := false
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.HeldForApproval() {
			rows = append(rows, HeldRow{Since: p.Approval.Since, Step: p.Step})
		}
		asks = asks || p.Status == StepStatusPending && p.Remote != nil && p.Remote.Asking != AwaitNothing
	}
	if rows == nil && !asks && s.Turn != nil && s.Status == Waiting && s.Awaiting == AwaitInput {
		return []HeldRow{{Since: s.StatusAt}}
	}
	return rows
}
