package rules

import (
	"crypto/sha256"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The second implementation of the semantics, in the plainest way: it keeps
// nothing but the journal, and to know anything it reads the whole journal
// again from the first record. It shares the contract's types with the machine
// and no code.

// naive is one run.
type naive struct {
	g       *machine.Graph
	entries []machine.Entry
	// now is the input in progress, and records are the records that it has made so far.
	now     machine.Input
	records []machine.Record
	// standingEffects are the effects that stay uncompensated when the event is followed. If blind is set,
	// only steps of the input in progress have business keys. If undone is set, nothing is left to compensate.
	standingEffects []machine.UncompensatedEffect
	blind           bool
	undone          bool
	// agentsUndo says that the event that follows the compensation came from the agent.
	agentsUndo bool
}

// view is the state of a run, read from its journal.
type view struct {
	at        int64
	seq       uint64
	visitSeq  uint64
	current   string
	visits    map[string]int
	edges     map[string]int
	total     int
	calls     int
	steps     []vstep
	lastStep  uint32
	toolSteps int
	keys      uint64
	texts     []machine.TextRef
	reframes  int
	tokens    int64
	// estimatedTokens is the part of tokens that was estimated because it was not reported. version
	// is the version of the last input.
	estimatedTokens int64
	version         machine.Semantics
	// called are the calls of tools with a bound of their own.
	called    map[string]int
	cost      int64
	turn      *vturn
	queue     []uint64
	heeds     []vheed
	artifacts map[string]vartifact
	windows   map[string][2]uint64
	rows      []machine.MessageRow
	bytes     int64
	paused    bool
	await     machine.Awaiting
	ended     *machine.Ended
	deadline  int64
	left      int64
	timeoutAt int64
	// limit is the limit of tokens and cost. wrapped says whether the run has entered on_budget.
	limit   machine.Amount
	wrapped bool
	// mostCalls and policy are what the run may call; 0 and nil = anything.
	mostCalls int64
	policy    *machine.ToolPolicy
	// uncounted says that the run is in no account. apart is what the runs of agents consumed that
	// are in accounts themselves.
	uncounted bool
	apart     machine.Amount
	// unreported are the calls of models whose usage was not reported. noticed says whether there
	// is a notice that the budget is low.
	unreported []machine.UnreportedUsage
	noticed    bool
	// firstRecord is the first record of the input that is being read.
	firstRecord uint64
	// business has the business keys of steps, effects the effects that can be compensated, and
	// undo the compensation that is in progress.
	business map[[32]byte]machine.Effect
	effects  []machine.CompensableEffect
	undo     *machine.Undo
}

type vturn struct {
	seq       uint64
	attempt   int
	notBefore int64
	suspended bool
	assigned  machine.Assignment
	requests  int
	calls     int
	failure   [32]byte
	keys      uint64
}

type vstep struct {
	n              uint32
	key            string
	tool           string
	payload        [32]byte
	status         machine.StepStatus
	attempt        int
	deadline       int64
	answer         uint64
	conversation   string
	remote         vremote
	turn           uint64
	asked          uint64
	call           machine.CallRef
	model          vmodel
	bound          machine.Amount
	held           vheld
	effect         [32]byte
	begins         int64
	outcomeUnknown bool
	inquiry        uint32
	byCaller       bool
	about          machine.About
	// payloadAt is the record of the decision that replaced the payload. wasAsked says whether a
	// tool was asked about the outcome of the last attempt.
	payloadAt uint64
	wasAsked  bool
	// local says that the run of the step's agent is in accounts itself.
	local bool
	// repeatable says that an unknown outcome is followed by another attempt.
	repeatable bool
}

type vartifact struct {
	bytes  int64
	writes int
	seq    uint64
}

// view reads the journal and the records made so far.
func (n *naive) view() *view {
	v := &view{
		called: map[string]int{}, visits: map[string]int{}, edges: map[string]int{},
		artifacts: map[string]vartifact{}, windows: map[string][2]uint64{}, business: map[[32]byte]machine.Effect{},
	}
	for _, e := range n.entries {
		n.read(v, e.Input, e.Records)
		n.settleEntry(v, e.Input, e.Records)
	}
	n.read(v, n.now, n.records)
	if n.undone {
		v.undo = nil
	}
	return v
}

func (n *naive) read(v *view, in machine.Input, records []machine.Record) {
	if start, ok := begun(in.Command); ok && v.seq == 0 {
		v.limit, v.mostCalls, v.policy = n.firstLimit(start), n.mostCalls(start), start.Policy
		if fork, ok := in.Command.(machine.Fork); ok {
			v.policy = fork.From.Policy
		}
		v.uncounted = start.Parent != nil && start.Parent.Origin == "" && start.Payer == nil
		wall := n.g.Budget.MaxWallTime
		if start.MaxWallTime > 0 && (wall == 0 || start.MaxWallTime < wall) {
			wall = start.MaxWallTime
		}
		if wall > 0 {
			v.deadline = in.At + int64(wall)
		}
	}
	v.firstRecord, v.version = v.seq+1, in.Semantics
	for _, r := range records {
		v.seq, v.at = r.Seq, r.At
		switch c, forks := in.Command.(machine.Fork); {
		case n.readUndo(v, in.Command, r), n.readDecided(v, r), n.readModel(v, in.Command, r), v.readSteer(in.Command, r):
		case forks && r.Seq == 1:
			n.readOrigin(v, c, r)
		default:
			n.readRecord(v, r)
		}
	}
}

// settleEntry applies what an entry as a whole does: the ordinals of its requests, the report that
// opened an attempt, and the wall clock that stands or runs.
func (n *naive) settleEntry(v *view, in machine.Input, records []machine.Record) {
	if v.turn != nil {
		opened := false
		for _, r := range records {
			if f, ok := r.Body.(*machine.TurnFailed); ok && f.Next > 0 {
				v.turn.failure, opened = in.BodyHash, true
			}
			if _, ok := r.Body.(*machine.Transition); ok {
				opened = true
			}
		}
		if c, ok := in.Command.(machine.RequestSteps); ok && !opened {
			from := c.First
			if from == 0 {
				from = v.turn.requests + 1
			}
			v.turn.requests = from + len(c.Requests) - 1
		}
	}
	if v.ended != nil || !n.g.WallExcludesWaiting {
		return
	}
	waiting := n.status(v) == machine.Waiting
	if waiting && v.deadline > 0 {
		v.left, v.deadline = v.deadline-v.at, 0
	}
	if !waiting && v.left > 0 {
		v.deadline, v.left = v.at+v.left, 0
	}
}

func (n *naive) status(v *view) machine.Status {
	switch {
	case v.ended != nil:
		return v.ended.Status
	case v.undo != nil, v.isHeld(), v.turn == nil, v.awaitedOfDelegation() != machine.AwaitNothing, v.turn.suspended, v.turn.notBefore > 0, n.g.States[v.current].Orchestration == machine.External:
		return machine.Waiting
	}
	return machine.Running
}

func (n *naive) readRecord(v *view, r machine.Record) {
	switch b := r.Body.(type) {
	case *machine.Transition:
		v.total++
		v.visits[b.To]++
		v.wrapped = v.wrapped || b.From != "" && b.Event == ""
		if b.From != "" && b.Event != "" && len(b.Redirects) == 0 {
			v.edges[b.From+"."+b.Event]++
		}
		v.current, v.visitSeq, v.steps, v.undo = b.To, r.Seq, nil, nil
		v.turn = &vturn{seq: r.Seq, attempt: 1}
		if b.AwaitsInput {
			v.turn = nil
		}
		n.readWrites(v, r.Seq, b.Artifacts)
		node := n.g.States[b.To]
		v.timeoutAt = 0
		if node.Timeout != nil && !node.Terminal {
			v.timeoutAt = r.At + int64(node.Timeout.After)
		}
		if w, ok := v.windows[b.To]; ok && !node.Persistent {
			v.windows[b.To] = [2]uint64{w[1], w[1]}
		}
		v.begin()
	case *machine.InputReceived:
		v.bytes += naiveBytes(b.Parts) + naiveEnvelope(b.Envelope)
		if b.Step != 0 {
			remote := &v.step(b.Step).remote
			remote.Asking, remote.Answer = machine.AwaitNothing, r.Seq
			break
		}
		if r.Seq == v.visitSeq+1 && v.total == 1 && b.MessageID == "" && !b.Queued {
			v.addRow(r.Seq)
		} else {
			v.queue = append(v.queue, r.Seq)
		}
	case *machine.TurnOpened:
		v.turn = &vturn{seq: r.Seq, attempt: 1}
		v.begin()
	case *machine.TurnCompleted:
		v.turn, v.await = nil, b.Await
		v.spend(b.Usage)
		v.bytes += naiveBytes(b.Output)
		for _, m := range b.Messages {
			v.bytes += naiveMessage(m)
		}
		if len(b.Output) > 0 || len(b.Messages) > 0 || b.ConversationThrough.Step != 0 {
			v.addRow(r.Seq)
		}
		n.readWrites(v, r.Seq, b.Artifacts)
	case *machine.ArtifactsSet:
		n.readWrites(v, r.Seq, b.Artifacts)
	case *machine.BudgetRaised:
		v.limit, v.noticed = b.To, false
	case *machine.Paused:
		v.paused = true
	case *machine.Resumed:
		v.paused = false
	case *machine.Ended:
		n.readWrites(v, r.Seq, b.Artifacts)
		v.ended, v.turn, v.queue, v.heeds, v.paused = b, nil, nil, nil, false
		v.unreported, v.undo, v.effects = nil, nil, nil
		v.deadline, v.left, v.timeoutAt = 0, 0, 0
	default:
		n.readTurnRecord(v, r)
	}
}

func (n *naive) readTurnRecord(v *view, r machine.Record) {
	switch b := r.Body.(type) {
	case *machine.TurnAssigned:
		v.turn.assigned, v.turn.requests, v.turn.notBefore = b.Assigned, 0, 0
	case *machine.TurnFailed:
		v.spend(b.Usage)
		v.reject(b)
		if b.Next == 0 {
			v.turn = nil
			break
		}
		*v.turn = vturn{seq: v.turn.seq, attempt: b.Next, notBefore: b.NotBefore, calls: v.turn.calls, keys: v.turn.keys}
	case *machine.TurnAbandoned:
		v.turn = nil
	case *machine.TurnSuspended:
		v.turn.suspended, v.turn.notBefore = true, 0
	case *machine.StepRejected:
		v.turn.notBefore = 0
	case *machine.TurnReady:
		v.turn.suspended, v.turn.notBefore, v.turn.requests = false, 0, 0
	case *machine.StepRequested:
		v.calls++
		if n.g.Tools[b.Tool].MaxCalls > 0 {
			v.called[b.Tool]++
		}
		v.toolSteps++
		v.turn.calls++
		v.turn.notBefore = 0
		v.lastStep = b.Step
		if b.Reframe {
			v.reframes++
		}
		step := vstep{
			n: b.Step, key: b.Key, tool: b.Tool, payload: sha256.Sum256(b.Payload),
			status: machine.StepStatusPending, attempt: 1, deadline: b.Deadline, turn: b.TurnSeq, asked: r.Seq,
			bound:  machine.Amount{Tokens: b.Bound.InputTokens + b.Bound.OutputTokens, CostMicro: b.Bound.CostMicro, ToolCalls: int64(b.Bound.ToolCalls)},
			begins: r.At, byCaller: b.ByCaller, local: b.Local, repeatable: b.Repeatable,
		}
		n.readHeld(&step, b, r)
		n.readKey(v, &step, b, r)
		if b.Call != nil {
			step.call = *b.Call
		}
		v.steps = append(v.steps, step)
	case *machine.NoChange:
		if b.Command == machine.CmdRequestSteps {
			v.turn.notBefore = 0
		}
	case *machine.StepResolved:
		v.spendOf(v.step(b.Step), b.Usage)
		n.readResolved(v, b, r)
	case *machine.StepDelegated:
		v.bytes += naiveBytes(b.Question)
		v.step(b.Step).remote = vremote{Remote: b.Remote, known: true}
	case *machine.OutputWritten:
		v.bytes += naivePiece(b.Piece)
		v.turn.notBefore = 0
	case *machine.StepCancelled:
		step := v.step(b.Step)
		v.spendOf(step, b.Usage)
		n.owe(v, step)
		unsent := v.isUnsent(step)
		step.status, step.deadline, step.bound, step.inquiry = machine.StepStatusCancelled, 0, machine.Amount{}, 0
		n.closeEffect(v, step, unsent, false)
	}
}

func (v *view) step(n uint32) *vstep {
	for i := range v.steps {
		if v.steps[i].n == n {
			return &v.steps[i]
		}
	}
	return nil
}

func (v *view) pending() []uint32 {
	var list []uint32
	for _, s := range v.steps {
		if s.status == machine.StepStatusPending {
			list = append(list, s.n)
		}
	}
	return list
}

// ofTurns returns the pending steps that turns asked for.
func (v *view) ofTurns() (list []uint32) {
	for _, i := range v.pending() {
		if v.step(i).about.Role == 0 {
			list = append(list, i)
		}
	}
	return list
}

// awaitedSteps returns the pending steps that the executor of the turn does not answer itself.
func (v *view) awaitedSteps() []uint32 {
	var list []uint32
	for _, s := range v.steps {
		if s.status == machine.StepStatusPending && !s.model.is && s.about.Role == 0 {
			list = append(list, s.n)
		}
	}
	return list
}

// spendOf adds what a step consumed.
func (v *view) spendOf(step *vstep, u machine.Usage) {
	v.spend(u)
	if step.local {
		v.apart.Tokens += u.InputTokens + u.OutputTokens
		v.apart.CostMicro += u.CostMicro
	}
}

func (v *view) spend(u machine.Usage) {
	v.calls += u.ToolCalls
	v.tokens += u.InputTokens + u.OutputTokens
	v.cost += u.CostMicro
	if u.Estimated {
		v.estimatedTokens += u.InputTokens + u.OutputTokens
	}
}

func (v *view) takeQueue() {
	for _, seq := range v.queue {
		v.addRow(seq)
	}
	v.queue = nil
}

func (v *view) addRow(seq uint64) {
	w := v.windows[v.current]
	v.rows = append(v.rows, machine.MessageRow{State: v.current, N: w[1], Seq: seq})
	v.windows[v.current] = [2]uint64{w[0], w[1] + 1}
}

func (n *naive) readWrites(v *view, seq uint64, writes []machine.ArtifactWrite) {
	for _, w := range writes {
		a := v.artifacts[w.Name]
		if n.g.Artifacts[w.Name].Mode == machine.Replace {
			a.bytes = 0
		}
		v.artifacts[w.Name] = vartifact{bytes: a.bytes + int64(len(w.Value)), writes: a.writes + 1, seq: seq}
	}
}

func (v *view) heldTokens() int64 {
	var sum int64
	for _, a := range v.artifacts {
		sum += a.bytes
	}
	return sum
}

func naiveBytes(parts []machine.Part) int64 {
	var sum int64
	for _, p := range parts {
		for _, s := range []string{p.Text, string(p.Data), p.MediaType, p.Filename, string(p.Metadata)} {
			sum += int64(len(s))
		}
	}
	return sum
}
