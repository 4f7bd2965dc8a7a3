package validate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// TestAnswersThatContradictThemselves: only an error may have fields about further attempts. An error
// with an unknown outcome must not be final, because the pack decides about its further attempts.
func TestAnswersThatContradictThemselves(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer machine.ResolveStep
		field  string
	}{
		"a result that is unknown":                 {machine.ResolveStep{OK: true, Result: []byte(`1`), Unknown: true}, "unknown"},
		"a result without a value that is unknown": {machine.ResolveStep{OK: true, Unknown: true}, "unknown"},
		"a result without a value that waits":      {machine.ResolveStep{OK: true, RetryAfter: -time.Second}, "retry_after"},
		"an unknown error that is final":           {machine.ResolveStep{Final: true, Unknown: true}, "unknown"},
		"a final result":                           {machine.ResolveStep{OK: true, Result: []byte(`1`), Final: true}, "non_retryable"},
		"a wait after the last attempt":            {machine.ResolveStep{Final: true, RetryAfter: time.Second}, "retry_after"},
		"an unknown error that waits":              {machine.ResolveStep{Unknown: true, RetryAfter: time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.answer.Step, tt.answer.Tool, tt.answer.Attempt = 1, "add", 1
			_, err := validate.Check("", tt.answer)
			refusal, refused := errors.AsType[*machine.Error](err)
			if refused != (tt.field != "") || refused && (refusal.Reason != "RETRY_CONTRADICTION" || refusal.Field != tt.field) {
				t.Errorf("%v, want a refusal of %q", err, tt.field)
			}
		})
	}
}
