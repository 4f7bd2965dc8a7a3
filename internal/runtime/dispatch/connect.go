package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// WorkerRequest is the argument of [Dispatcher.Connect].
type WorkerRequest struct {
	runtime.Call
	// ID is the id that the worker chose. It stays the same when the worker reconnects.
	ID string
	// Instance identifies the worker's process. "" means that the process is unknown. Received is the highest number of a
	// step delivery that this process has received, or 0 if it has received none. Counts reports whether the worker sent
	// this number.
	Instance string
	Counts   bool
	Received uint64
	// Client is the program and version of the worker, for display. "" means unknown.
	Client string
	// Address is the network address of the worker, for display. "" means unknown.
	Address string
	// Offer describes the work that the worker offers to execute. Capacities above the operator's limit are lowered.
	Offer machine.WorkOffer
	// AllowUnknown means that the offer may contain names that no pack declares.
	AllowUnknown bool
	// Turns and Steps are the leases that the worker still has from an earlier connection.
	Turns []TurnLease
	Steps []StepLease
	// Served are the runs that the worker served (executed alone) on an earlier connection. refused are the runs among
	// them that the worker may not serve.
	Served  []Served
	refused map[string]bool
	Sink    WorkerSink
}

// Connection is the result of [Dispatcher.Connect].
type Connection struct {
	Worker *Worker
	// Turns and Steps are the leases that the worker keeps from an earlier connection. Each has a new token.
	Turns []TurnLease
	Steps []StepLease
	// Offer is the worker's offer with the capacities that apply.
	Offer machine.WorkOffer
	// Unknown are the names in the offer that no pack declares, for example "prompt:<key>". The list is
	// sorted.
	Unknown []string
	// Replaced describes another process with the same principal and id whose connection was ended. It is nil if there
	// was none.
	Replaced *Replaced
}

// Replaced describes a worker process whose connection was ended, for display.
type Replaced struct{ Client, Instance, Address string }

// Connect registers a worker and returns the work that it keeps. The worker has announced no free capacity (credits)
// yet, so it receives no work before the returned [Connection]. If a worker with the same principal and id is
// connected, Connect ends the earlier connection with ABORTED WORKER_REPLACED.
//
// Errors: PERMISSION_DENIED SCOPE_MISSING; NOT_FOUND NAMESPACE_NOT_FOUND, PACK_NOT_FOUND; INVALID_ARGUMENT
// UNKNOWN_PROMPT, UNKNOWN_AGENT, UNKNOWN_TOOL; RESOURCE_EXHAUSTED MAX_WORKERS; FAILED_PRECONDITION WORKERS_OFF;
// UNAVAILABLE DRAINING, COMMIT_UNKNOWN, DATABASE_AWAY.
func (r *Dispatcher) Connect(ctx context.Context, req WorkerRequest) (Connection, error) {
	scopes := policy.Work
	if req.ServesOnly() {
		scopes |= policy.RunsWrite
	}
	ns, err := r.cfg.Engine.Admit(req.Call, scopes)
	if err != nil {
		return Connection{}, err
	}
	if r.cfg.Off && !req.ServesOnly() {
		return Connection{}, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "WORKERS_OFF", Message: "this server takes no workers",
		}
	}
	if err := r.cfg.Engine.Health(); err != nil {
		return Connection{}, err
	}
	unknown, err := r.checkOffer(ctx, ns, &req)
	if err != nil {
		return Connection{}, err
	}
	req.Offer.Turns = min(req.Offer.Turns, r.cfg.MaxWorkerTurns)
	req.Offer.Steps = min(req.Offer.Steps, r.cfg.MaxWorkerSteps)
	if err := r.checkServed(ctx, ns, &req); err != nil {
		return Connection{}, err
	}
	states, err := r.heldStates(ctx, ns, &req)
	if err != nil {
		return Connection{}, err
	}
	conn, err := r.open(ns).connect(&req, states)
	conn.Unknown = unknown
	return conn, err
}

// ServesOnly reports whether the worker only serves named runs and offers no prompts, agents or tools.
func (req *WorkerRequest) ServesOnly() bool {
	return len(req.Offer.Prompts)+len(req.Offer.Agents)+len(req.Offer.Tools) == 0
}

// heldState is the newest state of a run. The connecting worker has leases of this run.
type heldState struct {
	state *machine.State
	graph *machine.Graph
	held  holders
}

// heldStates reads the runs of which the reconnecting worker has leases. If a run cannot be read, the worker loses its
// work of this run. If the store is unavailable, heldStates returns an error, so that the worker keeps its work and
// reconnects later.
func (r *Dispatcher) heldStates(ctx context.Context, ns uint32, req *WorkerRequest) (map[string]heldState, error) {
	states := make(map[string]heldState)
	read := func(run string) error {
		if _, done := states[run]; done {
			return nil
		}
		s, prog, err := r.cfg.Engine.Current(ctx, runtime.RunKey{Namespace: ns, ID: run})
		if err != nil {
			return err
		}
		held, err := r.holders(ctx, prog.Graph, s)
		if err == nil {
			states[run] = heldState{state: s, graph: prog.Graph, held: held}
		}
		return err
	}
	for i := range req.Turns {
		if err := read(req.Turns[i].RunID); away(err) {
			return nil, err
		}
	}
	for i := range req.Steps {
		if err := read(req.Steps[i].RunID); away(err) {
			return nil, err
		}
	}
	return states, nil
}

// soon adds a short retry delay to an error that may no longer occur when another worker has disconnected.
func soon(err error) error {
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.RetryAfter == 0 {
		refusal.RetryAfter = int64(workRetry)
	}
	return err
}

// connect adds the worker to the shard, with the work that the worker keeps. It does everything under one lock, so that
// other code never sees a half-connected worker.
func (sp *namespaceShard) connect(req *WorkerRequest, states map[string]heldState) (Connection, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	name := workerName{principal: req.Principal.Name(), id: req.ID}
	old := sp.names[name]
	if old == nil && len(sp.workers) >= sp.dispatcher.cfg.MaxWorkers {
		return Connection{}, &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "MAX_WORKERS", Message: "too many workers are connected",
			Limit: int64(sp.dispatcher.cfg.MaxWorkers), Got: int64(len(sp.workers)) + 1, RetryAfter: int64(workRetry),
		}
	}
	if old == nil {
		if err := sp.dispatcher.cfg.Quotas.CheckCount(sp.ns, quota.Workers, len(sp.workers)+1); err != nil {
			return Connection{}, soon(err)
		}
	}
	sp.last++
	w := &Worker{
		shard: sp, call: req.Call, name: name, instance: req.Instance, client: req.Client, address: req.Address, since: sp.now(), sink: req.Sink, offer: req.Offer, id: sp.last,
		outgoing: sp.numbersOf(name, req),
		turns:    make(map[string]*turnLease), steps: make(map[string]*stepLease), past: newPastSteps(), served: make(map[string]int), full: make(map[string]struct{}), over: cache.New[string, pastTurn](maxPastTurns),
	}
	w.seen.Store(w.since)
	conn := Connection{Worker: w, Offer: req.Offer}
	sp.resumeServing(w, old, req)
	for i := range req.Turns {
		if lease := sp.keepTurn(w, old, &req.Turns[i], states); lease != nil {
			conn.Turns = append(conn.Turns, lease.snapshot())
		}
	}
	presented := make(map[machine.WorkID]bool, len(req.Steps))
	for i := range req.Steps {
		presented[machine.WorkID{RunID: req.Steps[i].RunID, Step: req.Steps[i].Step}] = true
		if lease := sp.keepStep(w, old, &req.Steps[i], states); lease != nil {
			conn.Steps = append(conn.Steps, lease.snapshot())
		}
	}
	conn.Replaced = sp.replace(old, w)
	sp.workers[w.id], sp.names[name] = w, w
	sp.releaseUnreceived(w, req, presented)
	turns, steps := w.counted()
	sp.matcher.AddWorker(w.id, req.Offer, turns, steps)
	if sp.draining {
		sp.matcher.Drain(w.id)
	}
	sp.remind(w)
	if !sp.scanned {
		// The scan for ready work starts only after the first worker has registered the steps that it still has. So the
		// scan cannot offer these steps to another worker.
		sp.scanned = true
		go sp.scan()
	}
	return conn, nil
}

// remind sends a reconnected worker, for each turn that it keeps, the answers of all answered steps of the visit,
// because the worker may have missed some while it was disconnected.
func (sp *namespaceShard) remind(w *Worker) {
	for _, lease := range w.turns {
		go sp.sendAnswers(lease, nil)
	}
}

// replace ends the earlier connection of a worker. The error to its process says that it must not reconnect. Otherwise two connections
// with the same id would replace each other forever. If the earlier connection belonged to another process, replace returns its
// description.
func (sp *namespaceShard) replace(old, w *Worker) *Replaced {
	if old == nil {
		return nil
	}
	sp.removeWorker(old, true) // work that the new connection does not keep counts as lost
	same := old.instance != "" && old.instance == w.instance
	text := fmt.Sprintf("do not reconnect: another process registered as worker %q; give each process its own worker_id", old.name.id)
	if same {
		text = fmt.Sprintf("do not reconnect: this process registered as worker %q over another stream", old.name.id)
	}
	go old.sink.End(&machine.Error{Code: machine.CodeAborted, Reason: "WORKER_REPLACED", Field: "worker_id", Message: text})
	if same {
		return nil
	}
	return &Replaced{Client: old.client, Instance: old.instance, Address: old.address}
}

// keepTurn lets a reconnected worker keep a turn. It returns nil if the worker loses the turn, for example because
// another worker got it in the meantime.
func (sp *namespaceShard) keepTurn(w, old *Worker, held *TurnLease, states map[string]heldState) *turnLease {
	at, ok := states[held.RunID]
	if !ok || !holdsStill(at.state, w, held) {
		return nil
	}
	if _, serves := w.served[held.RunID]; !serves && !at.state.Execution.Leased() {
		return nil // only the worker that serves a run with the execution CALLER may have its turn
	}
	run := sp.run(held.RunID)
	if at.state.Seq < run.seq && (run.turn == nil || run.turn.seq != held.Turn || run.turn.attempt != held.Attempt) {
		return nil
	}
	turn := sp.track(run, at.state, at.graph)
	served, may := w.keeps(run, &turn.class)
	if turn.lease != nil && (turn.lease.worker != old || old == nil) || !may || held.Delivery < turn.deliveries {
		return nil
	}
	if turn.lease == nil && turn.lost > 0 {
		turn.lost-- // the delivery counted as lost, but the worker still has it
	}
	sp.takeOver(run, turn.lease)
	lease := &turnLease{
		run: run.id, worker: w, turn: turn.seq, attempt: turn.attempt, delivery: held.Delivery,
		token: sp.dispatcher.cfg.IDs.Token(), at: sp.now(), requests: held.Requests, sent: true, served: served,
		duration: cmp.Or(at.graph.Lease, sp.dispatcher.cfg.Lease),
	}
	if recorded := at.state.Turn.Assigned; recorded.Worker == w.name.id && recorded.Delivery == held.Delivery {
		lease.at = recorded.At
	}
	lease.deadline = sp.now() + int64(lease.duration)
	lease.timer = sp.dispatcher.timers.set(lease.duration, func() { sp.expire(lease) })
	turn.deliveries, turn.lease, w.turns[lease.token] = held.Delivery, lease, lease
	w.counts.countTaken(&turn.class)
	return lease
}

// holdsStill reports whether the worker's lease is still good: the attempt of the turn is open in the state, is not
// suspended, its pause after an earlier failure is over, and it was not assigned to a worker again in the meantime.
func holdsStill(s *machine.State, w *Worker, held *TurnLease) bool {
	turn := s.Turn
	if s.Status.Terminal() || turn == nil {
		return false
	}
	if turn.Seq != held.Turn || turn.Attempt != held.Attempt || turn.Suspended || turn.NotBefore != 0 {
		return false
	}
	recorded := turn.Assigned
	return recorded.Delivery < held.Delivery || recorded.Delivery == held.Delivery && recorded.Worker == w.name.id
}

// takeOver prepares a turn for its reconnected worker. It ends the lease of the earlier connection or, if no worker has
// the turn, removes the turn from the queue of unassigned work.
func (sp *namespaceShard) takeOver(run *workRun, before *turnLease) {
	if before == nil {
		sp.withdraw(machine.WorkID{RunID: run.id}, run.turn.class)
		return
	}
	before.over = true
	delete(before.worker.turns, before.token)
	sp.dispatcher.timers.cancel(before.timer)
}

// keepStep lets a reconnected worker keep a step. It returns nil if the worker loses the step, for example because another worker got it
// in the meantime. If the attempt has ended or the run could not be read, its token is remembered, so that a late answer gets the recorded
// outcome.
func (sp *namespaceShard) keepStep(w, old *Worker, held *StepLease, states map[string]heldState) *stepLease {
	at, ok := states[held.RunID]
	if !ok {
		w.past.put(*held)
		return nil
	}
	if !pendingAt(at.state, held.Step, held.Attempt) {
		if held.Step <= at.state.LastStep && sp.acceptsStaleAnswer(w, at.state, held) {
			w.past.put(*held)
		}
		return nil
	}
	run := sp.run(held.RunID)
	if at.state.Seq >= run.seq {
		sp.offerSteps(run, at.state, at.graph, at.held)
	}
	step := run.steps[held.Step]
	if step == nil || step.attempt != held.Attempt || !step.heldBy(w.name, old) {
		return nil
	}
	served, may := w.keeps(run, &step.class)
	if !may && w.offer.Serves(&step.class) {
		return nil // the worker has no free capacity
	}
	// The worker has the step although it does not offer steps of this class: it served the run (executed it alone)
	// when it received the step.
	return sp.adoptStep(w, run, step, served || !may)
}

// heldBy reports whether the step was last sent to the worker with this name, possibly over its earlier connection.
func (s *stepWork) heldBy(name workerName, old *Worker) bool {
	if s.lease != nil {
		return old != nil && s.lease.worker == old && s.lease.sent
	}
	return workerName{principal: s.lostBy.Principal, id: s.lostBy.Worker} == name
}

// acceptsStaleAnswer reports whether the worker may still answer an attempt that has ended. If the step is answered,
// the worker gets the recorded outcome. If the step is in a later attempt, a successful answer to the earlier attempt
// is still accepted.
func (sp *namespaceShard) acceptsStaleAnswer(w *Worker, s *machine.State, held *StepLease) bool {
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Step == held.Step && p.AwaitingAnswer() {
			class := sp.dispatcher.stepClass(s, p.Tool)
			_, serves := w.served[s.RunID]
			return held.Attempt < p.Attempt && (serves || w.offer.Serves(&class))
		}
	}
	return true
}

// adoptStep gives a reconnected worker a new lease of a step that it already executes. An earlier lease of the
// step ends.
func (sp *namespaceShard) adoptStep(w *Worker, run *workRun, step *stepWork, served bool) *stepLease {
	if before := step.lease; before != nil {
		before.over = true
		before.unregister()
	} else {
		sp.withdraw(machine.WorkID{RunID: run.id, Step: step.step}, step.class)
	}
	sp.dispatcher.timers.cancel(step.reconnectTimer)
	delete(sp.disconnected, step)
	step.reconnectTimer, step.lostBy = nil, machine.StepHolder{}
	lease := &stepLease{
		run: run.id, worker: w, work: step, step: step.step, tool: step.class.Tool, attempt: step.attempt,
		token: sp.dispatcher.cfg.IDs.Token(), sent: true, served: served, at: sp.now(),
	}
	if before := step.lease; before != nil {
		lease.at = before.at
	}
	step.lease = lease
	lease.register()
	w.counts.countTaken(&step.class)
	return lease
}

// checkOffer compares the names in an offer with the names that the packs of the offer declare. It returns the unknown
// names, sorted. If the worker does not allow unknown names, it returns an error instead.
func (r *Dispatcher) checkOffer(ctx context.Context, ns uint32, req *WorkerRequest) ([]string, error) {
	known, unknown, err := r.offeredNames(ctx, ns, req)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		word, reason, field string
		names               []string
		known               map[string]bool
	}{
		{"prompt", "UNKNOWN_PROMPT", "register.prompts", req.Offer.Prompts, known.prompts},
		{"agent", "UNKNOWN_AGENT", "register.agents", req.Offer.Agents, known.agents},
		{"tool", "UNKNOWN_TOOL", "register.tools", req.Offer.Tools, known.tools},
	} {
		for _, name := range kind.names {
			if name == "*" || kind.known[name] {
				continue
			}
			if !req.AllowUnknown {
				return nil, &machine.Error{
					Code: machine.CodeInvalidArgument, Reason: kind.reason, Field: kind.field, Allowed: sortedKeys(kind.known),
					Message: fmt.Sprintf("no pack that the worker is for has %s %q", kind.word, name),
				}
			}
			unknown = append(unknown, kind.word+":"+name)
		}
	}
	slices.Sort(unknown)
	return unknown, nil
}

// packNames are the names of the prompts, agents and tools that packs declare.
type packNames struct{ prompts, agents, tools map[string]bool }

func (n *packNames) add(p *pack.Pack) {
	for key := range p.Doc.Prompts {
		n.prompts[key] = true
	}
	for key := range p.Doc.Tools {
		n.tools[key] = true
	}
	for _, name := range p.Agents() {
		n.agents[name] = true
	}
}

// offeredNames returns the names that the packs of an offer declare. An offer without packs is for all packs of the
// namespace. A pack that is not registered is returned as unknown, or as an error if the worker does not allow unknown
// names.
func (r *Dispatcher) offeredNames(ctx context.Context, ns uint32, req *WorkerRequest) (packNames, []string, error) {
	names := packNames{prompts: map[string]bool{}, agents: map[string]bool{}, tools: map[string]bool{}}
	var unknown []string
	refs := req.Offer.Packs
	if len(refs) == 0 {
		var err error
		if refs, err = r.allPacks(ctx, ns); err != nil {
			return names, nil, err
		}
	}
	for _, ref := range refs {
		digest, err := r.cfg.Packs.Resolve(ctx, ns, ref)
		var p *pack.Pack
		if err == nil {
			p, err = r.cfg.Packs.Pack(ctx, ns, digest)
		}
		if err != nil && !req.AllowUnknown {
			return names, nil, err
		}
		if err != nil {
			unknown = append(unknown, "pack:"+ref)
			continue
		}
		names.add(p)
	}
	return names, unknown, nil
}

// allPacks returns the digests of all packs that are registered in a namespace.
func (r *Dispatcher) allPacks(ctx context.Context, ns uint32) ([]string, error) {
	var digests []string
	for after := ""; ; {
		rows, next, err := r.cfg.Store.ListPacks(ctx, ns, after, validate.MaxPageSize)
		if err != nil {
			return nil, validate.ListFailed("packs", err)
		}
		for i := range rows {
			digests = append(digests, rows[i].Digest)
		}
		if next == "" {
			return digests, nil
		}
		after = next
	}
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
