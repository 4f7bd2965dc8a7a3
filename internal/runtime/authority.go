package runtime

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// policyActs maps each command that a caller can send to the act that the policy allows or refuses.
var policyActs = map[machine.CommandKind]policy.Act{
	machine.CmdEmitEvent:       policy.Emit,
	machine.CmdSetArtifacts:    policy.Write,
	machine.CmdCompleteTurn:    policy.Complete,
	machine.CmdFailTurn:        policy.Execute,
	machine.CmdSuspendTurn:     policy.Execute,
	machine.CmdRequestSteps:    policy.Execute,
	machine.CmdWriteOutput:     policy.Execute,
	machine.CmdRequestModel:    policy.Execute,
	machine.CmdAnswerModel:     policy.AnswerModel,
	machine.CmdUpdateModelCall: policy.Execute,
	machine.CmdResolveStep:     policy.Resolve,
	machine.CmdSendInput:       policy.Drive,
	machine.CmdPause:           policy.Drive,
	machine.CmdSteer:           policy.Drive,
	machine.CmdStop:            policy.Drive,
	machine.CmdResume:          policy.Drive,
	machine.CmdCancel:          policy.Drive,
	machine.CmdRaiseBudget:     policy.Fund,
	machine.CmdDecideStep:      policy.Approve,
}

// authorize checks whether the principal may make the request, by its rights and its turn token (checks 5 and 6 of
// semantics §4). outside reports whether the principal acts without being the executor of the turn.
//
// Two errors are returned even if the rights are missing, too. First, the run has ended: the machine reports this,
// except for the answer to a step or to a model call (semantics §9). Second, the run has made a transition that the
// caller did not know of: only a caller that may see the run gets this error. So the slower of two competing callers
// learns which transition was made, instead of an error about its token.
func (t *execution) authorize() (outside bool, err error) {
	if t.op.internal || t.op.start != nil {
		return false, nil
	}
	act := policyActs[machine.KindOf(t.op.command)]
	if t.state.Status.Terminal() && act != policy.Resolve && act != policy.AnswerModel {
		return false, nil
	}
	if t.op.principal.MaySeeRuns() {
		if err := rules.CheckExpected(t.state, t.op.command); err != nil {
			return false, err
		}
	}
	verdict, err := t.decide(policy.Ask{
		Act: act, Orchestration: orchestration(t.program.Graph, t.state),
		Leased: t.e.leased(t.op.key, t.state),
	})
	return verdict.Outside, err
}

// decide returns the policy's decision about the request, with the principal and the token of the request.
func (t *execution) decide(ask policy.Ask) (policy.Verdict, error) {
	ask.Principal = t.op.principal
	if t.op.holder != nil {
		t.authorizeByLease(&ask)
	} else {
		ask.Token, t.grant = t.tokenStatus(ask.Act)
		if ask.Leased && ask.Token == policy.TokenHeld {
			ask.Token = policy.TokenStale
		}
	}
	verdict, err := policy.Decide(ask)
	if err != nil {
		return verdict, t.deny(err)
	}
	return verdict, nil
}

// authorizeByLease makes the policy decide about a worker's request by the leases that the worker holds, instead of by
// the scopes of its principal.
func (t *execution) authorizeByLease(ask *policy.Ask) {
	t.grant, ask.HoldsLease = t.op.holder.Holds(t.op.key.ID, t.op.token, ask.Act, t.op.command)
	ask.Leased = false
	if !ask.HoldsLease && t.op.token != "" && ask.Act != policy.Resolve {
		ask.Token = policy.TokenStale
	}
}

// deny converts an error of the policy for the caller and adds the seq of the run's last transition. So the slower of
// two competing callers knows which record was first.
func (t *execution) deny(err error) error {
	err = PolicyError(err)
	var refusal *machine.Error
	if t.state != nil && errors.As(err, &refusal) {
		refusal.Seq = t.state.VisitSeq
	}
	return err
}

// tokenStatus checks the turn token of the request. The token of a turn may answer a step or a model call even after the turn has ended.
// In that case the machine reports that the answer came too late.
func (t *execution) tokenStatus(act policy.Act) (policy.Token, Grant) {
	var open *machine.Turn
	if t.state != nil {
		open = t.state.Turn
	}
	status, tok := t.e.runTable.tokenStatus(t.op.key, open, t.op.token)
	if status == policy.TokenStale && (act == policy.Resolve || act == policy.AnswerModel) {
		if past, ok := t.e.runTable.findGrant(t.op.key, t.op.token); ok {
			return policy.TokenHeld, past
		}
		tok = t.e.runTable.fencedGrant(t.op.key, t.op.token)
	}
	return status, tok
}

func orchestration(g *machine.Graph, s *machine.State) policy.Orchestration {
	node := g.States[s.Current]
	if node == nil {
		return policy.Internal
	}
	switch node.Orchestration {
	case machine.External:
		return policy.External
	case machine.Hybrid:
		return policy.Hybrid
	}
	return policy.Internal
}

// turnAfter returns the open turn after a commit. If the commit opened the turn, and the principal may execute it,
// turnAfter also issues a token. It issues tokens only for runs with the execution CALLER.
func (t *execution) turnAfter(before *machine.State) *TurnRef {
	turn := t.state.Turn
	opened := turn != nil && (before == nil || before.Turn == nil ||
		before.Turn.Seq != turn.Seq || before.Turn.Attempt != turn.Attempt)
	switch {
	case opened && t.givesToken():
		t.e.runTable.issueToken(t.op.key, Grant{
			Token: t.e.cfg.IDs.Token(), Turn: turn.Seq, Attempt: turn.Attempt,
			principal: t.op.principal.Name(), Delivery: 1,
		})
	case before != nil && before.Turn != nil && (opened || turn == nil):
		t.e.runTable.retire(t.op.key, turn)
	}
	return t.openTurn(t.program.Graph, t.state)
}

func (t *execution) givesToken() bool {
	return !t.op.internal && t.op.holder == nil && t.state.Execution == machine.Caller &&
		mayHoldTurn(t.op.principal, orchestration(t.program.Graph, t.state))
}

// mayHoldTurn reports whether the principal has the scope to execute turns of a state with this orchestration. Without
// this scope a turn token is useless.
func mayHoldTurn(p Principal, o policy.Orchestration) bool {
	if o == policy.External {
		return p.Scopes.Has(policy.EventsExternal)
	}
	return p.Scopes.Has(policy.RunsWrite)
}

// openTurn returns the reference to the open turn of a state. If the token of the turn was issued to the principal, the
// reference contains it.
func (t *execution) openTurn(g *machine.Graph, s *machine.State) *TurnRef {
	if s.Turn == nil {
		return nil
	}
	ref := turnRefOf(g, s)
	if !t.op.internal {
		ref.Token = t.e.runTable.currentToken(RunKey{Namespace: t.op.key.Namespace, ID: s.RunID}, s.Turn, t.op.principal.Name())
	}
	return ref
}

// endedTokens bounds the runs without an open turn whose last token is still remembered. The bound is for each shard of
// the table of tokens.
const endedTokens = 256

// tokenPair contains two tokens of a run: the token of the open turn, and the token of the turn or attempt before it.
// The earlier token is kept so that its holder can learn that its answer came too late.
type tokenPair struct {
	open, previous Grant
	// fenced are earlier tokens of the open turn that a newer token has replaced.
	fenced []Grant
	// slot is the index of the run's newest place in [tokenTable].ended, the ring of runs whose turns have ended.
	slot int
}

// maxFenced bounds the number of remembered tokens that were replaced. If there are more, the oldest one is dropped.
const maxFenced = 8

// tokenTable keeps the turn tokens of a shard's runs. It is only in memory, so after a restart every token is invalid.
// A cache.LRU cannot be used, because it could evict the token of an open turn.
type tokenTable struct {
	runs map[RunKey]*tokenPair
	// ended is a ring of the runs whose turns have ended. When the ring is full, the tokens of the oldest run are
	// dropped.
	ended []RunKey
	next  int
}

func newTokenTable() tokenTable { return tokenTable{runs: make(map[RunKey]*tokenPair)} }

// tokenStatus reports whether the token of a request is the token of the open turn.
func (s *runTable) tokenStatus(key RunKey, turn *machine.Turn, token string) (policy.Token, Grant) {
	if token == "" {
		return policy.TokenAbsent, Grant{}
	}
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	if pair == nil || turn == nil || !pair.open.hasToken(token) || !pair.open.isFor(turn) {
		return policy.TokenStale, Grant{}
	}
	return policy.TokenHeld, pair.open
}

// TokenOut returns the seq of a run's open turn if a caller has a token for it. Otherwise it returns 0.
func (e *Engine) TokenOut(key RunKey) uint64 { return e.runTable.heldTurn(key) }

// heldTurn returns the seq of a run's open turn if a caller has a token for it. Otherwise it returns 0.
func (s *runTable) heldTurn(key RunKey) uint64 {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil && pair.open.Token != "" {
		return pair.open.Turn
	}
	return 0
}

// findGrant returns the grant of a token, if it is the token of the open turn or of the turn before it.
func (s *runTable) findGrant(key RunKey, token string) (Grant, bool) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	switch {
	case pair == nil || token == "":
		return Grant{}, false
	case pair.open.hasToken(token):
		return pair.open, true
	case pair.previous.hasToken(token):
		return pair.previous, true
	}
	return Grant{}, false
}

// fencedGrant returns the grant of a token that a newer token of the same turn has replaced. It returns the zero value if
// there is none.
func (s *runTable) fencedGrant(key RunKey, token string) Grant {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil {
		if i := slices.IndexFunc(pair.fenced, func(g Grant) bool { return g.hasToken(token) }); i >= 0 {
			return pair.fenced[i]
		}
	}
	return Grant{}
}

// currentToken returns the token of the open turn if it was issued to the principal.
func (s *runTable) currentToken(key RunKey, turn *machine.Turn, principal string) string {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil && pair.open.isFor(turn) && pair.open.principal == principal {
		return pair.open.Token
	}
	return ""
}

// issueToken makes tok the token of the open turn. An older token of the same attempt becomes invalid. It returns false if
// the table already has a token of a later turn: the caller has then read an old state.
func (s *runTable) issueToken(key RunKey, tok Grant) bool {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	if pair == nil {
		pair = &tokenPair{}
		shard.tokens.runs[key] = pair
	}
	open := pair.open
	switch {
	case open.Turn > tok.Turn || open.Turn == tok.Turn && open.Attempt > tok.Attempt:
		return false
	case open.Turn == tok.Turn && open.Attempt == tok.Attempt:
		tok.Delivery = max(tok.Delivery, open.Delivery+1)
		pair.fenced = append(pair.fenced[max(0, len(pair.fenced)-maxFenced+1):], open)
	case open.Token != "":
		pair.previous, pair.fenced = open, nil
	}
	pair.open = tok
	return true
}

// retire records that the turn of the open token has ended: the open token becomes the earlier token of the run.
func (s *runTable) retire(key RunKey, turn *machine.Turn) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	if pair == nil || pair.open.Token == "" || turn != nil && pair.open.isFor(turn) {
		return
	}
	pair.fenced = nil
	pair.previous, pair.open = pair.open, Grant{Turn: pair.open.Turn, Attempt: pair.open.Attempt}
	shard.tokens.addEnded(key, pair)
}

// addEnded adds a run whose turn has ended to the ring of ended runs. If the ring is full, the tokens of the oldest run
// are dropped. A run can be in the ring several times, because several of its turns have ended, but only its last place
// counts.
func (t *tokenTable) addEnded(key RunKey, pair *tokenPair) {
	if len(t.ended) < endedTokens {
		pair.slot = len(t.ended)
		t.ended = append(t.ended, key)
		return
	}
	oldest := t.ended[t.next]
	if old := t.runs[oldest]; old != nil && old.open.Token == "" && old.slot == t.next {
		delete(t.runs, oldest)
	}
	t.ended[t.next], pair.slot = key, t.next
	t.runs[key] = pair
	t.next = (t.next + 1) % endedTokens
}

// setRequestCount sets the number of step requests that were made under a token. If a newer token has replaced the token,
// setRequestCount does nothing.
func (s *runTable) setRequestCount(key RunKey, token string, requests int) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil && pair.open.hasToken(token) {
		pair.open.Requests = requests
	}
}

func (t *Grant) hasToken(token string) bool {
	return t.Token != "" && subtle.ConstantTimeCompare([]byte(t.Token), []byte(token)) == 1
}

func (t *Grant) isFor(turn *machine.Turn) bool {
	return t.Token != "" && turn != nil && t.Turn == turn.Seq && t.Attempt == turn.Attempt
}

// LeaseHolder is a connected worker. Its rights come from the leases that it holds, not from its scopes. The engine
// calls the methods while it holds the execution slot of the run.
type LeaseHolder interface {
	// Holds reports whether the token in a request belongs to a lease that permits the act. It also returns the grant of the lease. If the
	// result is false, the grant is zero.
	Holds(run, token string, act policy.Act, command machine.Command) (Grant, bool)
	// Counted adds to the number of step requests that were made under a token.
	Counted(token string, requests int)
}

// Grant is the right of one caller, or of one lease, to execute one attempt of a turn.
type Grant struct {
	// Token is the turn token. It is "" if there is none.
	Token string
	// Turn and Attempt identify the attempt that the grant is for.
	Turn    uint64
	Attempt int
	// Delivery is the number of this token among the tokens that were issued for the attempt. The default step keys under
	// each token count from 1 (machine.RequestSteps.First).
	Delivery int
	// Requests is the number of step requests under this token, since the token was issued or since its turn was last
	// suspended.
	Requests int
	// Worker is the worker that received the lease, and At the time, in Unix nanoseconds. They are set only if the token
	// belongs to a lease.
	Worker string
	At     int64

	// principal is the name of the caller that received the token.
	principal string
}

// assignment returns the data about a lease (worker, delivery number and time) that is recorded with a request. It
// returns nil if the token belongs to a caller.
func (t *Grant) assignment() *machine.Assignment {
	if t.Worker == "" || t.Delivery == 0 {
		return nil
	}
	return &machine.Assignment{Worker: t.Worker, Delivery: t.Delivery, At: t.At}
}

// toolPolicy returns the tool_policy of the current state's prompt. It is nil if the prompt has none.
func (t *execution) toolPolicy() *pack.ToolPolicy {
	return t.program.Pack.Doc.Prompts[t.program.Graph.States[t.state.Current].Prompt].ToolPolicy
}

// roundDenied returns the refusal of a new model call if the turn already has as many model answers as
// tool_policy.max_rounds allows. Rejected answers do not count, because their calls are made again.
func (t *execution) roundDenied(cmd *machine.RequestModel) *machine.Denial {
	policy := t.toolPolicy()
	if policy == nil || policy.MaxRounds == nil || t.state.Turn == nil || rules.Round(t.state, cmd) != nil {
		return nil
	}
	answered := int64(0)
	for i := range t.state.Steps {
		if rules.IsTurnAnswer(&t.state.Steps[i], t.state.Turn.Seq) {
			answered++
		}
	}
	if answered < *policy.MaxRounds {
		return nil
	}
	return &machine.Denial{
		Code:    machine.MaxRounds,
		Message: fmt.Sprintf("the turn has %d answers of a model, and tool_policy.max_rounds is %d", answered, *policy.MaxRounds),
	}
}

// choiceDenied returns the refusal of a tool call that a model requested although tool_policy.tool_choice is none.
func (t *execution) choiceDenied(r *machine.StepRequest) *machine.Denial {
	if policy := t.toolPolicy(); r.Call == nil || policy == nil || policy.ToolChoice != "none" {
		return nil
	}
	return &machine.Denial{Code: machine.ToolBlocked, Message: "tool_policy.tool_choice of the prompt is none: a model calls no tool here"}
}

// Principal is the authenticated caller, with its name and its scopes.
type Principal = policy.Principal

// WiredPrincipal is a principal in the form in which one node sends it to another node.
type WiredPrincipal = policy.Wire

// Scopes is a set of rights of a [Principal].
type Scopes = policy.Scopes

// Operation is one row of [Operations]: an operation of the API and the scopes that allow it.
type Operation = policy.Operation

// Operations returns the table of operations with the scopes that allow each.
func Operations() []Operation { return policy.Operations }

// These are the scopes. The comment after each scope is its name in the API.
const (
	ScopePacksWrite     = policy.PacksWrite     // packs:write
	ScopeRunsWrite      = policy.RunsWrite      // runs:write
	ScopeRunsRead       = policy.RunsRead       // runs:read
	ScopeEventsExternal = policy.EventsExternal // events:external
	ScopeWork           = policy.Work           // work
	ScopeAdmin          = policy.Admin          // admin
	ScopeRunsDelete     = policy.RunsDelete     // runs:delete
	ScopeRunsErase      = policy.RunsErase      // runs:erase
	ScopeBudgetsWrite   = policy.BudgetsWrite   // budgets:write

	ScopeValuesSensitive = policy.ValuesSensitive // values:sensitive
	ScopeStoreRead       = policy.StoreRead       // store:read
	ScopeStepsApprove    = policy.StepsApprove    // steps:approve
)

// These are the names of principals that the sidecar itself uses. No caller may have them.
const (
	OwnName     = policy.OwnName
	SidecarName = policy.SidecarName
	CardsName   = policy.CardsName
)

// Anonymous returns the principal of every caller while authentication is off. It has all scopes except
// admin.
func Anonymous() Principal { return policy.Anonymous() }

// Answerer returns the principal that answered an agent's question. It is made from the stored name and scopes of the
// principal.
func Answerer(name string, scopes []string) Principal { return policy.Answerer(name, scopes) }

// PolicyError converts an error of the policy to a [machine.Error]. It returns nil for nil, and any other error as it is.
func PolicyError(err error) error {
	var d *policy.Denied
	if !errors.As(err, &d) {
		return err
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: d.Reason, Field: d.Field,
		Message: d.Message, Allowed: d.Scopes.Names(),
	}
}
