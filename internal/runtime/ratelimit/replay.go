package ratelimit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The functions below restore the usage of the last minute from the time before this process started,
// or before there were limits. The usage is read from the journal, and the calls in progress are read
// from the runs. No other data is stored.

const (
	// lookPage is the number of entries or runs that are read at once.
	lookPage = 512
	// maxLookSteps bounds the pending tool steps of a namespace that are read.
	maxLookSteps = 65536
	lookRetry    = time.Second
)

// restorePast restores the usage of the last minute from the journal. It does this once, when the table has
// limits for the first time. Other calls do nothing. It repeats failed reads until ctx ends.
func (r *Service) restorePast(ctx context.Context) {
	if !r.on.Load() || r.looking {
		return
	}
	r.looking = true
	for {
		err := r.lookOnce(ctx)
		if err == nil {
			break
		}
		select {
		case <-r.cfg.Clock.After(lookRetry):
		case <-ctx.Done():
			return
		}
	}
	r.mu.Lock()
	later := r.later
	r.later = nil
	close(r.restored)
	r.mu.Unlock()
	for _, then := range later {
		go then()
	}
}

// lookOnce restores the usage of the limits from the journal: the calls of the last minute, and the open calls and
// steps of all runs.
func (r *Service) lookOnce(ctx context.Context) error {
	namespaces := r.cfg.Engine.NamespaceNumbers()
	if err := r.storePastPositions(ctx, namespaces); err != nil {
		return err
	}
	var past []pastCall
	for _, ns := range namespaces {
		calls, err := r.lastMinute(ctx, ns)
		if err != nil {
			return err
		}
		past = append(past, calls...)
		if err := r.lookOpen(ctx, ns); err != nil {
			return err
		}
		if err := r.lookSteps(ctx, ns); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	wall, now := r.cfg.Clock.Now().UnixNano(), r.now()
	for i := range past {
		p := &past[i]
		// The time of the call is in the future if it is the time of the next attempt. It is at most one window ahead,
		// because the clock may have been set back.
		at := min(now-time.Duration(wall-p.at), now+minute)
		r.limiter.ReplayPast(now, at, now+time.Duration(max(0, p.until-wall)), &p.call, p.tokens)
	}
	return nil
}

// storePastPositions stores up to which position of the journal the past is read. Later records arrive through
// OnCommit.
func (r *Service) storePastPositions(ctx context.Context, namespaces []uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tails != nil {
		return nil
	}
	tails := make(map[uint32]uint64, len(namespaces))
	for _, ns := range namespaces {
		tail, err := r.cfg.Store.Tail(ctx, ns)
		if err != nil {
			return err
		}
		tails[ns] = tail
	}
	r.tails = tails
	return nil
}

// pastCall is a call in the journal that was made in the last minute.
type pastCall struct {
	call      Call
	run       string
	step      uint32
	at, until int64
	tokens    int64
}

// lastMinute reads the calls that began in the last minute. Tool calls are found by their end, because
// the journal does not contain their start.
func (r *Service) lastMinute(ctx context.Context, ns uint32) (calls []pastCall, err error) {
	since := r.cfg.Clock.Now().Add(-minute).UnixNano()
	tail := r.tails[ns]
	after, err := r.firstSince(ctx, ns, since, tail)
	if err != nil {
		return nil, err
	}
	heads := map[string]*machine.State{}
	for after < tail {
		entries, scanned, err := r.cfg.Store.Journal(ctx, ns, after, machine.Page{Records: lookPage})
		if err != nil || scanned <= after {
			return calls, err
		}
		for i := range entries {
			if e := &entries[i]; e.Cursor <= tail {
				calls = r.readEntry(ctx, ns, e, heads, calls)
			}
		}
		after = scanned
	}
	return calls, nil
}

// firstSince returns a cursor after which all entries have a time of at least `since`. It uses a binary
// search.
func (r *Service) firstSince(ctx context.Context, ns uint32, since int64, tail uint64) (uint64, error) {
	low, high := uint64(0), tail
	for low < high {
		mid := low + (high-low)/2
		entries, scanned, err := r.cfg.Store.Journal(ctx, ns, mid, machine.Page{Records: 1})
		switch {
		case err != nil:
			return 0, err
		case len(entries) == 0 && scanned > mid && scanned < tail:
			low = scanned // no entries are left in between
		case len(entries) == 0 || entries[0].Input.At >= since:
			high = mid
		default:
			low = max(mid+1, entries[0].Cursor)
		}
	}
	return low, nil
}

// readEntry appends the calls that an entry records.
func (r *Service) readEntry(ctx context.Context, ns uint32, e *machine.Entry, heads map[string]*machine.State, calls []pastCall) []pastCall {
	for i := range e.Records {
		at := e.Records[i].At
		switch rec := e.Records[i].Body.(type) {
		case *machine.StepRequested:
			if rec.Kind == machine.KindModel {
				calls = append(calls, pastCall{
					call: r.pastCall(ctx, ns, e.RunID, rec.Tool, "", heads), run: e.RunID, step: rec.Step, at: at, tokens: tokensOf(&rec.Bound),
				})
			}
		case *machine.StepResolved:
			switch {
			case rec.Kind == machine.KindModel:
				calls = r.readAnswer(ctx, ns, e.RunID, rec, at, heads, calls)
			case rec.Worker != "":
				calls = append(calls, pastCall{call: r.pastCall(ctx, ns, e.RunID, "", rec.Tool, heads), at: at})
			}
		}
	}
	return calls
}

// readAnswer handles the recorded answer of a model call. The usage replaces the tokens that were
// counted for the call. If the call gets another attempt, the attempt is appended.
func (r *Service) readAnswer(ctx context.Context, ns uint32, run string, rec *machine.StepResolved, at int64, heads map[string]*machine.State, calls []pastCall) []pastCall {
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].run == run && calls[i].step == rec.Step {
			if used := tokensOf(&rec.Usage); used > 0 {
				calls[i].tokens = used
			}
			break
		}
	}
	if rec.Next == 0 {
		return calls
	}
	next := pastCall{call: r.pastCall(ctx, ns, run, rec.Tool, "", heads), run: run, step: rec.Step, at: max(at, rec.NotBefore)}
	if limited(rec.Error.Code) {
		next.until = rec.NotBefore
	}
	return append(calls, next)
}

// limited reports whether the error code says that a provider refused a call because of its own rate
// limit.
func limited(code string) bool {
	return strings.Contains(code, "RATE_LIMIT") || strings.Contains(code, "429")
}

func (r *Service) pastCall(ctx context.Context, ns uint32, run, model, tool string, heads map[string]*machine.State) Call {
	s, known := heads[run]
	if !known {
		var err error
		if s, _, err = r.cfg.Engine.Current(ctx, runtime.RunKey{Namespace: ns, ID: run}); err != nil {
			s = &machine.State{Namespace: ns}
		}
		heads[run] = s
	}
	return r.call(s, model, tool)
}

// lookOpen restores the pending model calls. Their runs have an open turn, which may be waiting for its
// next attempt.
func (r *Service) lookOpen(ctx context.Context, ns uint32) error {
	open := machine.RunFilter{Status: []machine.Status{machine.Running, machine.Waiting}}
	for after := ""; ; {
		heads, next, err := r.cfg.Store.ListRuns(ctx, ns, open, after, lookPage)
		if err != nil {
			return err
		}
		for _, s := range heads {
			if slices.ContainsFunc(s.Steps, asksModel) {
				if err := r.restorePending(ctx, runtime.RunKey{Namespace: ns, ID: s.RunID}, asksModel); err != nil {
					return err
				}
			}
		}
		if after = next; next == "" {
			return nil
		}
	}
}

func asksModel(p machine.ToolStep) bool {
	return p.Model != nil && p.Dispatchable()
}

// lookSteps restores the steps of a namespace that workers have. A call that a caller makes itself is not counted as
// in progress.
func (r *Service) lookSteps(ctx context.Context, ns uint32) error {
	rows, err := r.cfg.Store.OutboxOf(ctx, ns, machine.OutboxStep, math.MaxInt64, maxLookSteps)
	if err != nil {
		return err
	}
	for _, row := range rows {
		holder, err := r.cfg.Store.StepHolder(ctx, row)
		if err != nil || holder.Worker == "" {
			if isReadFailure(err) {
				return err
			}
			continue
		}
		err = r.restorePending(ctx, runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}, func(p machine.ToolStep) bool { return p.Step == row.Step })
		if err != nil {
			return err
		}
	}
	return nil
}

// restorePending counts pending steps of a run as calls in progress. It holds the lock of the run, so
// that the commit that ends a step comes either before or after it. The tokens of a model call are not
// counted, because its request in the journal is counted. An error means that the store cannot be read
// at the moment. A run that can never be read is skipped.
func (r *Service) restorePending(ctx context.Context, key runtime.RunKey, which func(machine.ToolStep) bool) error {
	err := r.cfg.Engine.WithRunLock(key, func() error {
		s, _, err := r.cfg.Engine.Current(ctx, key)
		if err != nil || s.Status.Terminal() {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range s.Steps {
			p := &s.Steps[i]
			if !p.Dispatchable() || !which(*p) {
				continue
			}
			ask := Request{ID: ID{Namespace: key.Namespace, Run: key.ID, Key: p.Key}}
			if p.Model != nil {
				ask.Call, ask.Tokens = r.call(s, p.Tool, ""), p.Model.Tokens
			} else {
				ask.ID, ask.Call = stepID(key, p), r.call(s, "", p.Tool)
			}
			if r.limiter.Recorded(ask.ID) {
				continue
			}
			r.limiter.Restore(r.now(), ask, p.Step, p.Model == nil)
			r.ofRun(ask.ID)
		}
		return nil
	})
	if isReadFailure(err) {
		return err
	}
	return nil
}

// isReadFailure reports whether the error means that the store could not be read at the moment, so that the
// read must be repeated. It returns false for a permanent error, for example a missing or damaged run.
func isReadFailure(err error) bool {
	if err == nil || errors.Is(err, machine.ErrNoStep) {
		return false
	}
	refusal, ok := errors.AsType[*machine.Error](err)
	return !ok || refusal.Code == machine.CodeUnavailable
}
