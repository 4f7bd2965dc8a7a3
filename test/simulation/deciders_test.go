//go:build sim

package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// deciders are the people who decide about held calls, with what they saw and decided.
type deciders struct {
	world *world
	mu    sync.Mutex
	made  []*verdict
	// looked are the held calls that a person saw waiting. The newest is the last one.
	looked []look
}

// look is a held call as a person saw it.
type look struct {
	stepID
	tool, payload string
	digest        [32]byte
	// stale means that the digest belongs to another call.
	stale bool
	// rooted means that only the starter of the run began it. A fork is begun by the principal that
	// forks.
	rooted bool
}

// verdict is a decision that was sent.
type verdict struct {
	look
	by      string
	verdict machine.Verdict
	// out is the payload that is executed if the decision is accepted. "" means that no call is made.
	out string
	// taken means that the decision was accepted, refused that it was refused. If neither is set, the
	// outcome is unknown.
	taken, refused bool
}

func newDeciders(w *world) *deciders { return &deciders{world: w} }

// These are the principals that decide. The clerk has no right to decide.
var (
	judge  = runtime.Call{Principal: runtime.Principal{Subject: "judge", Scopes: policy.RunsRead | policy.StepsApprove}}
	second = runtime.Call{Principal: runtime.Principal{Subject: "second", Scopes: policy.RunsRead | policy.StepsApprove}}
	clerk  = runtime.Call{Principal: runtime.Principal{Subject: "clerk", Scopes: policy.RunsRead | policy.RunsWrite}}
	// starter started the run, and may decide where that is not forbidden.
	starter = runtime.Call{Principal: runtime.Principal{Subject: driver.Principal.Name(), Scopes: policy.RunsRead | policy.StepsApprove}}
)

// mustBeHeld reports whether a call of testdata/till.json must wait for a decision.
func mustBeHeld(tool, payload string) bool {
	if tool == "pay" {
		return true
	}
	amount := numberIn(payload, "amount")
	return tool == "refund" && (amount == nil || amount.Cmp(big.NewRat(50, 1)) > 0 || !doubles(payload))
}

// digestOf is the digest of a call, made as docs/guides/approvals.md says.
func digestOf(pack, run string, step uint32, tool, payload string) [32]byte {
	var values map[string]any
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	_ = d.Decode(&values) // what is no object has no keys
	canonical, _ := json.Marshal(values)
	of := sha256.Sum256(canonical)
	b := []byte("pawl.approval.v1\x00")
	for _, text := range []string{tool, pack, run} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
	}
	return sha256.Sum256(append(binary.BigEndian.AppendUint32(b, step), of[:]...))
}

// consider reads the held calls, and decides about one of them.
func (pp *people) consider(n *node, dice *rand.Rand) {
	how, choice, again := dice.IntN(12), dice.Uint64(), rand.New(rand.NewPCG(dice.Uint64(), 1))
	pp.call(n, "look for calls", func(ctx context.Context, p *process) error {
		waiting, err := pp.waiting(ctx, n, p)
		if err != nil {
			return err
		}
		if how == 0 { // about what waited earlier
			ds := pp.world.deciders
			ds.mu.Lock()
			waiting = slices.Clone(ds.looked)
			ds.mu.Unlock()
			waiting = slices.DeleteFunc(waiting, func(l look) bool { return l.node != n.name })
		}
		if len(waiting) == 0 {
			return nil
		}
		one := waiting[choice%uint64(len(waiting))]
		pp.decideOn(n, one, how, again)
		return nil
	})
}

// letAll approves all held calls.
func (pp *people) letAll(n *node) {
	pp.call(n, "look for calls", func(ctx context.Context, p *process) error {
		waiting, err := pp.waiting(ctx, n, p)
		for _, one := range waiting {
			pp.decideAs(n, judge, one, machine.Approved, "", 0)
		}
		return err
	})
}

// waiting are the held calls of a node.
func (pp *people) waiting(ctx context.Context, n *node, p *process) (all []look, err error) {
	page, err := p.house.Approvals(ctx, query.ApprovalsRequest{Call: judge, OldestFirst: true})
	if err != nil || p.ctx.Err() != nil {
		return nil, err
	}
	for i := range page.Waiting {
		at := &page.Waiting[i]
		if at.Call == nil {
			continue
		}
		one := look{stepID: stepID{n.name, at.State.RunID, at.Call.Step}, tool: at.Call.Tool, payload: string(at.Call.Payload), digest: at.Call.Approval.Digest}
		one.rooted = at.State.Forked == nil && at.State.Parent == nil
		if own := digestOf(at.State.Digest, one.run, one.step, one.tool, one.payload); own != one.digest {
			pp.world.fail("the digest is of the call that is shown", "%v: %s %s has %x, want %x", one.stepID, one.tool, one.payload, one.digest, own)
		}
		all = append(all, one)
	}
	ds := pp.world.deciders
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.looked = append(ds.looked, all...)
	return all, nil
}

// decideOn decides about a call, in one of the ways in which people do.
func (pp *people) decideOn(n *node, one look, how int, dice *rand.Rand) {
	edit := fmt.Sprintf(`{%s,"item":"edited"}`, foldedAmount(dice, 10*dice.IntN(9)))
	switch how {
	case 1: // two at once
		pp.decideAs(n, judge, one, machine.Approved, "", 0)
		pp.decideAs(n, second, one, pick(dice, machine.Approved, machine.Refused), "", 0)
	case 2: // two at once, about what the call should be
		pp.decideAs(n, judge, one, machine.Edited, edit, 0)
		pp.decideAs(n, second, one, machine.Approved, "", 0)
	case 3:
		pp.decideAs(n, judge, one, machine.Refused, "", 0)
	case 4:
		pp.decideAs(n, judge, one, machine.Edited, edit, 0)
	case 5: // yesterday's digest
		one.digest[dice.IntN(32)] ^= 1 << dice.IntN(8)
		one.stale = true
		pp.decideAs(n, judge, one, machine.Approved, "", 0)
	case 6:
		pp.decideAs(n, pick(dice, clerk, starter), one, machine.Approved, "", 0)
	case 7, 8:
		pp.decideAs(n, judge, one, machine.Approved, "", time.Duration(dice.IntN(1500))*time.Millisecond)
	default:
		pp.decideAs(n, pick(dice, judge, second), one, machine.Approved, "", 0)
	}
}

// decideAs sends a decision. within = 0 means that the decision does not expire.
func (pp *people) decideAs(n *node, who runtime.Call, one look, v machine.Verdict, edit string, within time.Duration) {
	id, ds := pp.id(), pp.world.deciders
	made := &verdict{look: one, by: who.Principal.Name(), verdict: v}
	command := machine.DecideStep{Step: one.step, Digest: one.digest, Verdict: v, Reason: id}
	switch v {
	case machine.Approved:
		made.out = one.payload
	case machine.Edited:
		made.out, command.Payload = edit, []byte(edit)
	}
	if within > 0 {
		command.Expires = n.clock.Now().Add(within).UnixNano()
	}
	ds.mu.Lock()
	ds.made = append(ds.made, made)
	ds.mu.Unlock()
	seen := callSeen{object: n.name + "/" + one.run, id: id, who: who.Principal, command: command}
	pp.ask(n, fmt.Sprintf("%s %s of step %d of %s by %s", v, id, one.step, short(one.run), made.by), seen, func(ctx context.Context, p *process) (runtime.Answer, error) {
		answer, err := p.house.Apply(ctx, runtime.Request{RunRef: runtime.RunRef{Call: who, RunID: one.run}, ID: id, Command: command})
		if p.ctx.Err() == nil {
			ds.hears(made, err)
		}
		return answer, err
	})
}

// `hears` records the answer to a decision.
func (ds *deciders) hears(v *verdict, err error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	switch {
	case err == nil:
		v.taken = true
	case !passing(err) && !v.taken:
		v.refused = true
	}
	if v.taken && (v.by == clerk.Principal.Name() || v.by == starter.Principal.Name() && v.tool == "pay" && v.rooted) {
		ds.world.fail("only those decide who may", "%v was %s by %s", v.stepID, v.verdict, v.by)
	}
	if v.taken && v.stale {
		ds.world.fail("a decision is about the call that is held", "%v was %s by the digest %x of another call", v.stepID, v.verdict, v.digest)
	}
}

// ran compares a call that was made with the decisions about it until then.
func (ds *deciders) ran(s *sale) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var sent, taken []*verdict
	for _, v := range ds.made {
		if v.stepID == s.stepID && !v.refused {
			sent = append(sent, v)
			if v.taken {
				taken = append(taken, v)
			}
		}
	}
	if len(taken) > 0 {
		sent = taken
	}
	lets := slices.ContainsFunc(sent, func(v *verdict) bool { return v.out != "" })
	same := slices.ContainsFunc(sent, func(v *verdict) bool { return v.out != "" && sameCall(v.out, s.payload) })
	switch {
	case len(sent) == 0 && !mustBeHeld(s.tool, s.payload):
	case !lets:
		ds.world.fail("no held call ran without its decision", "%v attempt %d: %s %s", s.stepID, s.attempt, s.tool, s.payload)
	case !same:
		ds.world.fail("the decided payload is the one that ran", "%v attempt %d: %s %s, decided was %s", s.stepID, s.attempt, s.tool, s.payload, sent[0].out)
	}
}

// count is how many decisions were taken.
func (ds *deciders) count() (n int) {
	for _, v := range ds.made {
		if v.taken {
			n++
		}
	}
	return n
}

// sameCall: two payloads are one value.
func sameCall(a, b string) bool {
	return digestOf("", "", 0, "", a) == digestOf("", "", 0, "", b)
}

// desk is the last decision about each held call of a run, by step, computed from the records.
type desk map[uint32]machine.Verdict

// noVerdict: the call waits.
const noVerdict machine.Verdict = 0

// consented compares one record with the approval rules of the pack.
func (o *oracle) consented(e *machine.Entry, r *machine.Record, s *spent) {
	fail := func(promise, format string, args ...any) {
		o.world.fail(promise, "%s: record %d of %s: %s", o.node.name, r.Seq, e.RunID, fmt.Sprintf(format, args...))
	}
	switch b := r.Body.(type) {
	case *machine.StepRequested:
		o.readable(e, b, s)
		if b.Kind == machine.KindModel || !s.keepsLedger {
			return
		}
		if held := b.Hold != nil; held != mustBeHeld(b.Tool, string(b.Payload)) {
			fail("calls wait that the pack holds", "%s %s is held: %v", b.Tool, b.Payload, held)
		} else if held {
			s.desk[b.Step] = noVerdict
		}
	case *machine.StepDecided:
		last, known := s.desk[b.Step]
		waits := known && (last == noVerdict || last == machine.Expired)
		if waits == (b.Verdict == machine.Expired) || !known {
			fail("one decision is used once", "step %d is %s, and was %s", b.Step, b.Verdict, last)
		}
		if _, timer := e.Input.Command.(machine.FireTimer); timer != (b.Verdict == machine.TimedOut) {
			fail("one decision is used once", "step %d is %s by %T", b.Step, b.Verdict, e.Input.Command)
		}
		s.desk[b.Step] = b.Verdict
	case *machine.StepResolved:
		last, known := s.desk[b.Step]
		if b.Error.Code == approval.MismatchCode {
			fail("the decided payload is the one that ran", "step %d is answered: %s", b.Step, b.Error.Message)
		}
		// If a call waits again, the attempts before were made.
		made := last == machine.Expired && b.OK && b.Attempt < s.letters.attempts[b.Step]
		if s.letters.attempts[b.Step] = b.Attempt; b.Next > 0 {
			s.letters.attempts[b.Step] = b.Next
		}
		if known && !made && last != machine.Approved && last != machine.Edited && (b.OK || b.Worker != "" || b.Next > 0) {
			fail("no held call ran without its decision", "step %d is answered, and was %s", b.Step, last)
		}
	}
}
