package client

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestDelegationTellsItsIdempotencyKey (8.5): all attempts of a delegation tell their
// agent one key for what it changes elsewhere.
func TestDelegationTellsItsIdempotencyKey(t *testing.T) {
	t.Parallel()
	for attempt := 1; attempt <= 3; attempt++ {
		d := &machine.Delegation{Row: machine.OutboxRow{RunID: "01M7YWZ645R9CSMET04ZPHE3R6", Step: 4, Attempt: attempt}}
		got := sender(d, machine.Answerer{}, "").GetStructValue().GetFields()["idempotency_key"].GetStringValue()
		if got != "01M7YWZ645R9CSMET04ZPHE3R6/4" {
			t.Errorf("attempt %d: %q", attempt, got)
		}
	}
}
