package pack

import (
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// policy returns the pack's settings for attempts and pauses. Attempts and pauses that the pack does not set get their defaults. The
// factor and the jitter stay unset, and the machine has their defaults. No pause is bounded by less than the first one. If r is nil,
// policy returns the defaults for turns and model calls.
func (r *Retry) policy() machine.RetryPolicy {
	if r == nil {
		r = &Retry{}
	}
	p := machine.RetryPolicy{
		MaxAttempts: clampInt(valueOr(r.MaxAttempts, defaultAttempts)), Initial: pauseOr(r.InitialSec, defaultPause),
	}
	p.Max = max(pauseOr(r.MaxSec, defaultMaxPause), p.Initial)
	if r.Multiplier != nil {
		p.Multiplier = int64(math.Round(*r.Multiplier * 1000))
	}
	if r.Jitter != nil {
		share := int64(math.Round(*r.Jitter * 1_000_000))
		p.Jitter = &share
	}
	if len(r.NonRetryable) > 0 {
		p.NonRetryable = slices.Sorted(slices.Values(r.NonRetryable))
	}
	return p
}

// retry returns the maximum number of attempts of a tool's step, and the pauses between them. The short form
// `attempts` sets only the number. Without the setting `retry` there are no pauses.
func (l *ToolLimits) retry() (attempts int, pauses *machine.RetryPolicy) {
	if l.Retry == nil {
		return clampInt(valueOr(l.Attempts, 1)), nil
	}
	p := l.Retry.policy()
	attempts, p.MaxAttempts = p.MaxAttempts, 0
	if l.Attempts != nil {
		attempts = clampInt(*l.Attempts)
	}
	return attempts, &p
}

// modelCalls returns the settings of model calls. It returns nil if the pack does not set them.
func modelCalls(x *XPawl) *machine.Calls {
	if x.ModelCalls == nil {
		return nil
	}
	calls := &machine.Calls{Timeout: secondsOr(x.ModelCalls.TimeoutSec, 0), Retry: x.ModelCalls.Retry.policy()}
	if word := x.ModelCalls.OnUnknown; word != "" {
		on := faultOf(word)
		calls.OnUnknown = &on
	}
	return calls
}

// pauseOr converts seconds to a duration, rounded to a microsecond. If sec is nil, it returns def.
func pauseOr(sec *float64, def time.Duration) time.Duration {
	if sec == nil {
		return def
	}
	return time.Duration(math.Round(*sec*1e6)) * time.Microsecond
}
