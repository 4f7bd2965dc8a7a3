package dispatch

import (
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Worker is a connected worker. Requests that carry it in their [Call] have the
// authority of its leases. Close it when its connection ends. Safe for concurrent
// use.
type Worker struct {
	shard *namespaceShard
	call  runtime.Call
	name  workerName
	// instance is its process, as it names it; "" = it does not.
	instance string
	// address is from where it connected, for people.
	address string
	// client is its program, as it names it; "" = it does not.
	client string
	sink   WorkerSink
	offer  machine.WorkOffer
	// since is when it connected, seen when it was heard of last, Unix nanoseconds.
	since int64
	seen  atomic.Int64

	// All below is guarded by the space's mutex.
	id    uint64
	turns map[string]*turnLease
	steps map[string]*stepLease
	past  pastSteps
	// served are the runs that it serves, with the bytes of their names, of which it has so many
	// in all; servedSteps is how many steps of them it has; full are those of which steps wait
	// until it has fewer.
	served             map[string]int
	names, servedSteps int
	full               map[string]struct{}
	// outgoing numbers the steps that go to its instance.
	outgoing *outgoingSteps
	// over are turns that were its own, by their tokens.
	over *cache.LRU[string, pastTurn]
	// drains: it said that it is going; gone: it was closed or replaced.
	drains, gone bool
}

// Call returns what requests of the worker carry.
func (w *Worker) Call() runtime.Call {
	call := w.call
	call.Worker = w
	return call
}

// Credit lets the worker be given so many more turns and steps.
func (w *Worker) Credit(turns, steps int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if !w.gone {
		w.shard.matcher.Credit(w.id, turns, steps)
	}
}

// Drain gives the worker nothing more, and what it holds when it is closed is
// not counted as lost.
func (w *Worker) Drain() {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.drains = true
	if !w.gone {
		w.shard.matcher.Drain(w.id)
	}
}

// Held is how many turns and steps the worker holds.
func (w *Worker) Held() (turns, steps int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return len(w.turns), len(w.steps)
}

// Heartbeat extends the leases of the given tokens, and no other. It returns
// them, and the tokens that are no lease of the worker's any more, those left out
// whose turn it ended itself: it may not have read the receipt yet.
func (w *Worker) Heartbeat(tokens []string) (extended []TurnLease, lost []string) {
	sp := w.shard
	sp.mu.Lock()
	defer sp.mu.Unlock()
	now := sp.now()
	for _, token := range tokens {
		lease := w.turns[token]
		switch {
		case lease == nil:
			if past, ok := w.over.Get(token); !ok || !past.own {
				lost = append(lost, token)
			}
		case !lease.sent:
		case !sp.dispatcher.timers.move(lease.timer, lease.duration):
			// It has run out; the run is about to hear of it.
			lost = append(lost, token)
		default:
			lease.deadline = now + int64(lease.duration)
			extended = append(extended, lease.snapshot())
		}
	}
	return extended, lost
}

// Shown is a piece that a worker shows of a turn.
type Shown struct {
	// Token is that of the turn's lease.
	Token string
	// Offset is how many bytes were shown before.
	Offset int64
	Text   string
	// Reset: it is the first one, and what was shown before is void.
	Reset bool
	// Reasoning: it is what a model thinks.
	Reasoning bool
}

// Output adds a piece of the output of a turn that the worker holds and returns
// the offset of the next one. Errors: PERMISSION_DENIED TURN_TOKEN_STALE, INVALID_ARGUMENT
// CHUNK_GAP.
func (w *Worker) Output(piece Shown) (int64, error) {
	sp := w.shard
	sp.mu.Lock()
	lease := w.turns[piece.Token]
	if lease == nil {
		sp.mu.Unlock()
		return 0, tokenStale("output.token")
	}
	if piece.Reset {
		sp.outputs.begin(lease)
	}
	kind := kindOfPiece{reasoning: piece.Reasoning}
	if run := sp.runs[lease.run]; run != nil {
		kind.seq = run.seq
	}
	end, ok := sp.outputs.add(lease, piece.Offset, piece.Text, kind)
	sp.mu.Unlock()
	if !ok {
		return end, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "CHUNK_GAP", Field: "output.offset",
			Message: fmt.Sprintf("the output has %d bytes; go on from there", end), Limit: end, Got: piece.Offset,
		}
	}
	sp.dispatcher.cfg.OnVolatileChange(sp.key(lease.run))
	return end, nil
}

func tokenStale(field string) error {
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "TURN_TOKEN_STALE", Field: field,
		Message: "the token is no lease of this worker, or no longer one",
	}
}

// ReleaseTurn gives a turn back; it is delivered again, at no attempt. Of a run that the worker
// serves it gives up the run. Error: PERMISSION_DENIED TURN_TOKEN_STALE.
func (w *Worker) ReleaseTurn(token string) error {
	sp := w.shard
	sp.mu.Lock()
	defer sp.mu.Unlock()
	lease := w.turns[token]
	if lease == nil {
		return tokenStale("release.turn_token")
	}
	sp.closeTurnLease(lease, true)
	sp.requeue(lease, false)
	if lease.served {
		sp.release(w, lease.run)
	}
	return nil
}

// ReleaseStep gives a step back whose tool has not begun; it is delivered again
// with the same attempt. Error: PERMISSION_DENIED STEP_NOT_HELD.
func (w *Worker) ReleaseStep(token string) error {
	sp := w.shard
	sp.mu.Lock()
	defer sp.mu.Unlock()
	lease := w.steps[token]
	if lease == nil {
		return &machine.Error{
			Code: machine.CodePermissionDenied, Reason: "STEP_NOT_HELD", Field: "release.step_token",
			Message: "the token is no lease of this worker, or no longer one",
		}
	}
	sp.detachStepLease(lease)
	sp.closeStepLease(lease)
	lease.work.storing = true
	go sp.releaseStep(lease.run, lease.work)
	return nil
}

// Close ends the worker's leases: its turns go to others at once, at no attempt;
// its steps wait a while for it to connect again, then their outcome is unknown.
// lost says that the connection broke, rather than that this side ended it.
func (w *Worker) Close(lost bool) {
	sp := w.shard
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.removeWorker(w, lost)
}

// removeWorker forgets a worker and hands on what it held.
func (sp *namespaceShard) removeWorker(w *Worker, lost bool) {
	if w.gone {
		return
	}
	w.gone = true
	delete(sp.workers, w.id)
	if sp.names[w.name] == w {
		delete(sp.names, w.name)
	}
	sp.matcher.RemoveWorker(w.id)
	for id := range w.served {
		// Its turn is nobody's; of its steps others may have tools.
		sp.runs[id].serving = nil
		go sp.refresh(id)
	}
	clear(w.served)
	for _, lease := range w.turns {
		lease.over = true
		sp.dispatcher.timers.cancel(lease.timer)
		sp.requeue(lease, lost && !w.drains)
	}
	for _, lease := range w.steps {
		lease.over = true
		sp.disconnectStep(lease)
	}
	clear(w.turns)
	clear(w.steps)
}

// Holds judges the token of a request of this worker: whether it is a lease
// that gives the right to act, and which execution it is.
func (w *Worker) Holds(run, word string, act policy.Act, command machine.Command) (runtime.Grant, bool) {
	sp := w.shard
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if cmd, ok := command.(machine.ResolveStep); ok {
		if lease := w.steps[word]; lease != nil && lease.run == run && lease.step == cmd.Step {
			return runtime.Grant{Worker: w.name.id}, true
		}
		if past, ok := w.past.byToken.Get(word); ok && past.RunID == run && past.Step == cmd.Step {
			return runtime.Grant{Worker: w.name.id}, true
		}
	}
	if lease := w.turns[word]; lease != nil && lease.run == run {
		return lease.grant(), true
	}
	if past, ok := w.over.Get(word); ok && past.run == run && machine.KindOf(command) == machine.CmdAnswerModel {
		return past.grant, true
	}
	if act != policy.Complete && act != policy.AnswerModel || sp.runs[run] == nil || sp.runs[run].turn == nil {
		return runtime.Grant{}, false
	}
	// The first completion of an attempt wins, from whichever delivery, and what a model
	// answered is whose who asked it.
	for _, lease := range sp.runs[run].turn.past {
		if lease.token == word && lease.worker.name == w.name {
			return lease.grant(), true
		}
	}
	return runtime.Grant{}, false
}

// grant is the lease as a request is stamped with it.
func (l *turnLease) grant() runtime.Grant {
	return runtime.Grant{
		Token: l.token, Turn: l.turn, Attempt: l.attempt, Delivery: l.delivery, Requests: l.requests,
		Worker: l.worker.name.id, At: l.at,
	}
}

// Counted adds the step requests of an execution.
func (w *Worker) Counted(token string, requests int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if lease := w.turns[token]; lease != nil {
		lease.requests += requests
	}
}
