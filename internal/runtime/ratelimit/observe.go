package ratelimit

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// OnCommit is told of a commit, in the run's own turn: what was asked for has its place from
// here on, and what is over gives it back.
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

// calls: a commit asks for a call of a model.
func calls(c *runtime.Commit) bool {
	for i := range c.Entry.Records {
		if rec, ok := c.Entry.Records[i].Body.(*machine.StepRequested); ok && rec.Kind == machine.KindModel {
			return true
		}
	}
	return false
}

// asks seats a call that was recorded.
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

// answers settles what came of a call, and counts the next one that its executor makes.
func (r *Service) answers(now time.Duration, c *runtime.Commit, rec *machine.StepResolved, at int64) {
	id, ok := r.ofStep(c.Key, rec.Step)
	if !ok {
		return
	}
	r.limiter.Settle(now, id, tokensOf(&rec.Usage))
	if cmd, ok := c.Batch.Input.Command.(machine.AnswerModel); ok {
		told := ProviderLimits{}
		if heard := r.providerLimits[answerOf{key: c.Key, step: cmd.Step, attempt: cmd.Attempt}]; heard != nil {
			told = *heard
		}
		told.Wait = cmd.RetryAfter
		r.limiter.ObserveProviderLimits(now, id, &told)
	}
	if rec.Next != 0 {
		r.limiter.Retry(now, id, max(0, time.Duration(rec.NotBefore-at)))
	}
}

// ofStep finds the ticket of a step.
func (r *Service) ofStep(key runtime.RunKey, step uint32) (ID, bool) {
	for id := range r.runs[key] {
		if t := r.limiter.reservations[id]; t != nil && t.recorded && t.step == step {
			return id, true
		}
	}
	return ID{}, false
}

// over ends the tickets of a run that its state has no more use for.
func (r *Service) over(key runtime.RunKey, s *machine.State) (some bool) {
	for id := range r.runs[key] {
		t := r.limiter.reservations[id]
		if t == nil || t.Call.Model != "" && t.granted && !t.recorded {
			continue // its caller is on the way
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

// pending: the step of a ticket may be with somebody. One of which nobody knows, about which
// somebody is asked, and one that is held again are with nobody.
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
