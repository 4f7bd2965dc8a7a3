package dispatch

import (
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Worker is a connected worker. A request that has this Worker in its [Call] has the rights of the worker's leases. The caller must call
// Close when the connection ends. Safe for concurrent use.
type Worker struct {
	shard *namespaceShard
	call  runtime.Call
	name  workerName
	// instance is the process id that the worker reported. "" means that it reported none.
	instance string
	// address is the network address of the worker, for display.
	address string
	// client is the program name that the worker reported. "" means that it reported none.
	client string
	sink   WorkerSink
	offer  machine.WorkOffer
	// since is the time when the worker connected. seen is the time of its last request. Both are in Unix nanoseconds.
	since int64
	seen  atomic.Int64

	// The mutex of the shard guards all fields below.
	id    uint64
	turns map[string]*turnLease
	steps map[string]*stepLease
	past  pastSteps
	// served maps the runs that the worker serves to the size of their names in bytes. names is the sum of these sizes. servedSteps counts
	// the steps of these runs that the worker holds. full are the served runs whose steps wait until servedSteps is lower.
	served             map[string]int
	names, servedSteps int
	full               map[string]struct{}
	// outgoing numbers the steps that are sent to the worker's process.
	outgoing *outgoingSteps
	// over holds the turns that the worker held before. The key is the token.
	over *cache.LRU[string, pastTurn]
	// drains reports whether the worker announced its shutdown. gone reports whether the worker was
	// closed or replaced.
	drains, gone bool
}

// Call returns the [runtime.Call] for requests of this worker.
func (w *Worker) Call() runtime.Call {
	call := w.call
	call.Worker = w
	return call
}

// Credit raises the number of turns and steps that the worker may still get.
func (w *Worker) Credit(turns, steps int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if !w.gone {
		w.shard.matcher.Credit(w.id, turns, steps)
	}
}

// Drain ends all further assignments to the worker. When the worker is closed later, its leases do not count as lost.
func (w *Worker) Drain() {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.drains = true
	if !w.gone {
		w.shard.matcher.Drain(w.id)
	}
}

// Held returns the number of turns and of steps that the worker holds.
func (w *Worker) Held() (turns, steps int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return len(w.turns), len(w.steps)
}

// Heartbeat extends the leases with the given tokens, and no other leases. It returns the extended leases and the tokens that are no
// longer leases of the worker. lost does not contain turns that the worker ended itself, because the worker may not have read the receipt
// yet.
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
			// The lease has expired. expire will record the end of the lease.
			lost = append(lost, token)
		default:
			lease.deadline = now + int64(lease.duration)
			extended = append(extended, lease.snapshot())
		}
	}
	return extended, lost
}

// Shown is a piece of turn output that a worker sends.
type Shown struct {
	// Token is the token of the turn's lease.
	Token string
	// Offset is the number of bytes of output before this piece.
	Offset int64
	Text   string
	// Reset reports whether the output of the turn starts over with this piece. Then the piece replaces
	// all earlier pieces.
	Reset bool
	// Reasoning reports whether the piece is reasoning of a model instead of output.
	Reasoning bool
}

// Output adds a piece of output of a turn that the worker holds. It returns the offset of the next
// piece. Errors: PERMISSION_DENIED TURN_TOKEN_STALE, INVALID_ARGUMENT CHUNK_GAP.
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

// ReleaseTurn ends the lease of a turn. The turn is delivered again and the attempt is not counted.
// For a run that the worker serves, it also ends the serving. Error: PERMISSION_DENIED
// TURN_TOKEN_STALE.
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

// ReleaseStep ends the lease of a step whose tool has not begun. The step is delivered again with the same attempt number. Error:
// PERMISSION_DENIED STEP_NOT_HELD.
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

// Close ends the worker's leases. Its turns are offered to other workers immediately, and the attempts
// are not counted. Its steps wait for the grace period, so that the worker can reconnect. If it does
// not reconnect, the outcome of the steps is unknown. lost reports whether the connection broke. It is
// false if this side closed the connection.
func (w *Worker) Close(lost bool) {
	sp := w.shard
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.removeWorker(w, lost)
}

// removeWorker removes a worker and offers its work to other workers.
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
		// The turn of a served run has no worker now, but other workers may still hold steps of the run.
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

// Holds checks the token in a request of this worker. It returns the execution that the lease with this token belongs to, and whether the
// lease permits the act.
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
	// Every delivery of an attempt may complete the attempt. The first completion is accepted. The
	// answer of a model call is accepted only from the delivery that made the call.
	for _, lease := range sp.runs[run].turn.past {
		if lease.token == word && lease.worker.name == w.name {
			return lease.grant(), true
		}
	}
	return runtime.Grant{}, false
}

// grant returns the part of the lease that is stamped into requests.
func (l *turnLease) grant() runtime.Grant {
	return runtime.Grant{
		Token: l.token, Turn: l.turn, Attempt: l.attempt, Delivery: l.delivery, Requests: l.requests,
		Worker: l.worker.name.id, At: l.at,
	}
}

// Counted adds to the number of steps that the execution with this token has requested.
func (w *Worker) Counted(token string, requests int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if lease := w.turns[token]; lease != nil {
		lease.requests += requests
	}
}
