package dispatch

import (
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Worker is a connected worker. A request with this Worker in its [runtime.Call] has the rights of the worker's leases.
// The owner of the connection must call Close when the connection ends. Safe for concurrent use.
type Worker struct {
	shard *namespaceShard
	call  runtime.Call
	name  workerName
	// instance identifies the worker's process, as the worker reported it. "" means that it reported none.
	instance string
	// address is the network address of the worker, for display.
	address string
	// client is the name of the worker's program, as the worker reported it. "" means that it reported none.
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
	// served maps the runs that the worker serves (executes alone) to the size of their names in bytes. names is the
	// sum of these sizes. servedSteps is the number of steps of these runs that the worker has. full are the served
	// runs whose steps wait until servedSteps is lower.
	served             map[string]int
	names, servedSteps int
	full               map[string]struct{}
	// outgoing has the numbering of the steps that are sent to the process of the worker.
	outgoing *outgoingSteps
	// over are the turns that the worker had earlier, by token.
	over *cache.LRU[string, pastTurn]
	// counts counts the work that the worker received over this connection.
	counts workerCounts
	// drains reports whether the worker has announced its shutdown. gone reports whether the worker was closed or
	// replaced by another connection.
	drains, gone bool
}

// Call returns the [runtime.Call] for requests of this worker.
func (w *Worker) Call() runtime.Call {
	call := w.call
	call.Worker = w
	return call
}

// Credit raises the number of turns and steps that the worker may still get. A worker announces its free capacity in
// this way.
func (w *Worker) Credit(turns, steps int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if !w.gone {
		w.shard.matcher.Credit(w.id, turns, steps)
	}
}

// Drain stops assignments to the worker, because it shuts down. If it is closed later, its leases do not count as lost.
func (w *Worker) Drain() {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.drains = true
	if !w.gone {
		w.shard.matcher.Drain(w.id)
	}
}

// Held returns the number of turns and of steps that the worker has.
func (w *Worker) Held() (turns, steps int) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return len(w.turns), len(w.steps)
}

// Heartbeat extends the leases with the given tokens, and no other leases. It returns the extended leases, and in lost
// the tokens that are not leases of the worker any more. lost does not contain turns that the worker itself ended,
// because the worker may not have read the answer to that request yet.
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
			// The turn has not been sent to the worker yet. Only the sending starts the timer of the lease, so there is
			// nothing to extend.
		case !sp.dispatcher.timers.move(lease.timer, lease.duration):
			// The lease has just expired, and the function expire will end it.
			lost = append(lost, token)
		default:
			lease.deadline = now + int64(lease.duration)
			extended = append(extended, lease.snapshot())
		}
	}
	return extended, lost
}

// Shown is a piece of turn output that a worker sends while it executes the turn.
type Shown struct {
	// Token is the token of the turn's lease.
	Token string
	// Offset is the number of output bytes before this piece.
	Offset int64
	Text   string
	// Reset means that the output of the turn starts over with this piece, which replaces all earlier pieces.
	Reset bool
	// Reasoning means that the piece is reasoning of a model and not output.
	Reasoning bool
}

// Output adds a piece to the output of a turn that the worker has. It returns the offset that the next piece must have.
// Errors: PERMISSION_DENIED TURN_TOKEN_STALE, INVALID_ARGUMENT CHUNK_GAP.
func (w *Worker) Output(piece Shown) (int64, error) {
	sp := w.shard
	sp.mu.Lock()
	lease := w.turns[piece.Token]
	if lease == nil {
		sp.mu.Unlock()
		return 0, tokenStale("output.token")
	}
	lease.outputAt = sp.now()
	if piece.Reset {
		sp.outputs.startOver(lease)
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

// ReleaseTurn gives back a turn that the worker has. The turn is delivered again, and no failed attempt is counted. If
// the worker serves the run, it stops serving it. Error: PERMISSION_DENIED TURN_TOKEN_STALE.
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

// ReleaseStep gives back a step whose tool has not begun. The step is delivered again with the same attempt number.
// Error: PERMISSION_DENIED STEP_NOT_HELD.
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

// Close ends the leases of the worker. Its turns are offered to other workers immediately, except those of runs that it serves, and no
// failed attempt is counted. A turn that was lost too often ends its run. Its steps wait for the grace period, so that the worker can
// reconnect. After that their outcome is unknown. lost reports whether the connection broke. It is false if the server closed it.
func (w *Worker) Close(lost bool) {
	sp := w.shard
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.removeWorker(w, lost)
}

// removeWorker removes a worker. Its turns are offered to other workers, and its steps wait for the grace period.
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
		// The turn of a served run now has no worker, but other workers may still have steps of the run.
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

// Holds reports whether the token `word` in a request of this worker belongs to a lease that permits the act. It also returns the grant of
// the lease. A lease that has ended still permits the answer to its step, the report of a model call, and the completion of its attempt,
// if the run still has the attempt.
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
	// Every delivery (assignment to a worker) of an attempt may complete the attempt, and the first completion is
	// accepted. The answer of a model call is accepted only from the delivery that made the call.
	for _, lease := range sp.runs[run].turn.past {
		if lease.token == word && lease.worker.name == w.name {
			return lease.grant(), true
		}
	}
	return runtime.Grant{}, false
}

// grant returns the data of the lease that the engine needs to check and record requests.
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
