package ratelimit

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// OnCommit updates the calls of a run after a commit. It is called under the lock of the run. It marks
// a requested model call as recorded, and releases calls that have ended.
func (r *Service) OnCommit(c *runtime.Commit) {
	if !r.on.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs[c.Key]) == 0 && !calls(c) {
		return
	}
	now, changed := r.now(), false
	for i := range c.Entry.Records {
		switch rec := c.Entry.Records[i].Body.(type) {
		case *machine.StepRequested:
			if rec.Kind == machine.KindModel && c.Entry.Cursor > r.tails[c.Key.Namespace] {
				r.asks(now, c, rec)
			}
		case *machine.StepResolved:
			if rec.Kind == machine.KindModel {
				r.answers(now, c, rec, c.Entry.Records[i].At)
				changed = true
			}
		}
	}
	if r.over(c.Key, c.Batch.State) || changed {
		r.admit()
	}
}

// calls reports whether a commit contains a request of a model call.
func calls(c *runtime.Commit) bool {
	for i := range c.Entry.Records {
		if rec, ok := c.Entry.Records[i].Body.(*machine.StepRequested); ok && rec.Kind == machine.KindModel {
			return true
		}
	}
	return false
}

// asks records a model call that was requested.
func (r *Service) asks(now time.Duration, c *runtime.Commit, rec *machine.StepRequested) {
	ask := Request{
		ID:   ID{Namespace: c.Key.Namespace, Run: c.Key.ID, Key: rec.Key},
		Call: r.call(c.Batch.State, rec.Tool, ""), Tokens: tokensOf(&rec.Bound),
	}
	if r.limiter.Recorded(ask.ID) {
		r.limiter.ChargeRetry(now, now, ask.ID)
		return
	}
	r.limiter.MarkRecorded(now, ask, rec.Step)
	r.ofRun(ask.ID)
}

// answers settles the usage of an answered model call. If the executor makes another attempt, answers
// counts this attempt.
func (r *Service) answers(now time.Duration, c *runtime.Commit, rec *machine.StepResolved, at int64) {
	id, ok := r.ofStep(c.Key, rec.Step)
	if !ok {
		return
	}
	r.limiter.Settle(now, id, tokensOf(&rec.Usage))
	if cmd, ok := c.Batch.Input.Command.(machine.AnswerModel); ok {
		limits := ProviderLimits{}
		if reported := r.providerLimits[answerOf{key: c.Key, step: cmd.Step, attempt: cmd.Attempt}]; reported != nil {
			limits = *reported
		}
		limits.Wait = cmd.RetryAfter
		r.limiter.ObserveProviderLimits(now, id, &limits)
	}
	if rec.Next != 0 {
		r.limiter.Retry(now, id, max(0, time.Duration(rec.NotBefore-at)))
	}
}

// ofStep finds the reservation of a step.
func (r *Service) ofStep(key runtime.RunKey, step uint32) (ID, bool) {
	for id := range r.runs[key] {
		if t := r.limiter.reservations[id]; t != nil && t.recorded && t.step == step {
			return id, true
		}
	}
	return ID{}, false
}

// over releases the reservations that the run's state no longer needs.
func (r *Service) over(key runtime.RunKey, s *machine.State) (some bool) {
	for id := range r.runs[key] {
		t := r.limiter.reservations[id]
		if t == nil || t.Call.Model != "" && t.granted && !t.recorded {
			continue // Its caller is about to commit it.
		}
		if t.granted || t.Call.Tool != "" {
			if pending(s, id) {
				continue
			}
			delete(r.waiters, id)
			r.release(id)
			some = true
			continue
		}
		if w := r.waiters[id]; w != nil && (foregone(s) || s.Turn.Seq != w.turn || s.Turn.Attempt != w.attempt) {
			r.release(id)
			delete(r.waiters, id)
			w.over = true
			close(w.done)
			some = true
		}
	}
	return some
}

// pending reports whether a worker may be executing the step of a reservation. It returns false for a
// step with an unknown outcome, a step that waits for a decision about its outcome, and a step that is
// held again.
func pending(s *machine.State, id ID) bool {
	if s.Status.Terminal() {
		return false
	}
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Key == id.Key {
			return p.Dispatchable() && (id.Attempt == 0 || p.Attempt == id.Attempt)
		}
	}
	return false
}
