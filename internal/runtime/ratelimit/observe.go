package ratelimit

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// OnCommit updates the calls of a run after a commit: it notes recorded model calls and releases calls
// that have ended. It is called under the lock of the run.
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
				r.noteRequest(now, c, rec)
			}
		case *machine.StepResolved:
			if rec.Kind == machine.KindModel {
				r.answers(now, c, rec, c.Entry.Records[i].At)
				changed = true
			}
		}
	}
	if r.releaseEnded(c.Key, c.Batch.State) || changed {
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

// noteRequest notes that a model call was requested, and counts it.
func (r *Service) noteRequest(now time.Duration, c *runtime.Commit, rec *machine.StepRequested) {
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

// answers replaces the counted tokens of an answered model call by its usage. If the call gets another
// attempt, answers counts it, too.
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

// ofStep returns the id of the recorded call of a step. It returns false if there is none.
func (r *Service) ofStep(key runtime.RunKey, step uint32) (ID, bool) {
	for id := range r.runs[key] {
		if t := r.limiter.reservations[id]; t != nil && t.recorded && t.step == step {
			return id, true
		}
	}
	return ID{}, false
}

// releaseEnded releases the calls of a run that have ended or are not needed any more, according to the run's
// state. It reports whether there were any.
func (r *Service) releaseEnded(key runtime.RunKey, s *machine.State) (some bool) {
	for id := range r.runs[key] {
		t := r.limiter.reservations[id]
		if t == nil || t.Call.Model != "" && t.granted && !t.recorded {
			continue // a caller has the permission and is about to commit the request
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
		if w := r.waiters[id]; w != nil && (cannotCall(s) || s.Turn.Seq != w.turn || s.Turn.Attempt != w.attempt) {
			r.release(id)
			delete(r.waiters, id)
			w.abandoned = true
			close(w.done)
			some = true
		}
	}
	return some
}

// pending reports whether a worker may be executing the step of a call. It returns false for a step
// that waits for approval, or whose unknown outcome is being inquired about.
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
