//go:build sim

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules/invariant"
)

// oracle knows what a node has shown and what must be true from then on: the journal as it was read,
// replayed by the pure machine.
type oracle struct {
	world *world
	node  *node
	// of is the process that was read last. At another process, everything is read again.
	of      *process
	read    uint64
	journal []machine.Entry
	states  map[string]*machine.State
	graphs  map[string]*machine.Graph
	// ids has the record of each input with an id, by run, kind and id. turns has the record of each
	// completed turn.
	ids   map[string]uint64
	turns map[string]uint64
	// spent is what each run has used of its bounds, counted without the machine.
	spent    map[string]*spent
	books    books
	admitted admitted
	// instants are the scheduled times for which runs were started last, by schedule. firings counts
	// these runs.
	instants map[string]time.Time
	firings  map[string]int
	// acked are the hashes of entries that callers received.
	acked map[place][32]byte
	// deleting are the runs whose deletion was requested. deleted are those whose deletion was
	// acknowledged.
	deleting, deleted map[string]bool
	// seats are the numbers that steps asked for.
	seats map[string]bool
}

func newOracle(w *world, n *node) *oracle {
	return &oracle{
		world: w, node: n, states: map[string]*machine.State{}, graphs: map[string]*machine.Graph{},
		ids: map[string]uint64{}, turns: map[string]uint64{}, spent: map[string]*spent{}, books: books{rows: map[string]*book{}}, acked: map[place][32]byte{},
		instants: map[string]time.Time{}, firings: map[string]int{}, deleting: map[string]bool{}, deleted: map[string]bool{}, seats: map[string]bool{},
	}
}

func (w *world) oracle(n *node) *oracle { return w.oracles[slices.Index(w.stores, n)] }

// acknowledged records that a caller received an answer with an entry. The entry must be readable from
// then on.
func (o *oracle) acknowledged(name string, a *runtime.Answer) {
	if len(a.Entry.Records) == 0 {
		return
	}
	o.acked[place{run: a.RunID, seq: a.Entry.First}] = a.Entry.Hash
	p := o.node.process()
	if p == nil {
		return
	}
	entry, err := p.store.Entry(context.Background(), p.ns, a.RunID, a.Entry.First)
	if p.ctx.Err() != nil || away(err) {
		return
	}
	if machine.IsDeleted(err) && o.deleting[a.RunID] {
		return
	}
	if err != nil || entry.Hash != a.Entry.Hash {
		o.world.fail("what was acknowledged is there", "%s: record %d of %s: %v", name, a.Entry.First, a.RunID, err)
	}
}

const page = 1 << 20

// look reads new entries, or all entries after a crash, and checks them.
func (o *oracle) look() {
	p := o.node.process()
	if p == nil || o.world.failed() != nil {
		return
	}
	if p != o.of {
		o.of, o.read = p, 0
	}
	for {
		entries, at, err := p.store.Journal(context.Background(), p.ns, o.read, machine.Page{Records: page, Bytes: page})
		if p.ctx.Err() != nil || away(err) {
			return
		}
		if err != nil {
			o.world.fail("the journal can be read", "%s behind %d: %v", o.node.name, o.read, err)
			return
		}
		for i := range entries {
			o.gap(entries[i].Cursor - 1)
			o.take(&entries[i])
			o.read = entries[i].Cursor
		}
		o.gap(at)
		o.read = at
		if len(entries) == 0 {
			break
		}
	}
	if int(o.read) < len(o.journal) {
		o.world.fail("nothing acknowledged is lost", "%s showed %d commits, now it has %d", o.node.name, len(o.journal), o.read)
	}
}

// gap checks that the skipped entries up to a cursor belong to deleted runs.
func (o *oracle) gap(to uint64) {
	for c := o.read + 1; c <= to; c++ {
		if int(c) > len(o.journal) || !o.deleting[o.journal[c-1].RunID] {
			o.world.fail("nothing acknowledged is lost", "%s: commit %d is passed over", o.node.name, c)
			return
		}
	}
}

// take proves the entry at the next cursor.
func (o *oracle) take(e *machine.Entry) {
	if o.deleted[e.RunID] {
		o.world.fail("what was deleted stays deleted", "%s: commit %d of %s", o.node.name, e.Cursor, e.RunID)
	}
	if e.Cursor == 0 || int(e.Cursor) > len(o.journal)+1 {
		o.world.fail("cursors are dense", "%s: %d after %d", o.node.name, e.Cursor, len(o.journal))
		return
	}
	if int(e.Cursor) <= len(o.journal) {
		if known := &o.journal[e.Cursor-1]; known.Hash != e.Hash || known.RunID != e.RunID {
			o.world.fail("nothing acknowledged is changed", "%s: commit %d", o.node.name, e.Cursor)
		}
		return
	}
	o.journal = append(o.journal, *e)
	o.alone(e.RunID)
	if err := o.step(e); err != nil {
		o.world.fail("the pure machine agrees", "%s: record %d of %s (%T): %v", o.node.name, e.First, e.RunID, e.Input.Command, err)
	}
	o.once(e)
	o.bounded(e)
	o.approved(e)
	o.begins(e)
	o.fired(e)
	if hash, ok := o.acked[place{run: e.RunID, seq: e.First}]; ok && hash != e.Hash {
		o.world.fail("nothing acknowledged is changed", "%s: record %d of %s", o.node.name, e.First, e.RunID)
	}
}

// alone checks that a run is in one store only.
func (o *oracle) alone(run string) {
	for _, other := range o.world.oracles {
		if other != o && other.states[run] != nil {
			o.world.fail("a run is in its namespace alone", "%s has %s, which is one of %s", o.node.name, run, other.node.name)
		}
	}
}

// step feeds the entry's input to the machine and compares every record.
func (o *oracle) step(e *machine.Entry) error {
	before := o.states[e.RunID]
	seq, hash := uint64(0), [32]byte{}
	if before != nil {
		seq, hash = before.Seq, before.PrevHash
	}
	if e.First != seq+1 || e.PrevHash != hash {
		return fmt.Errorf("it follows record %d, or the chain is broken", seq)
	}
	g, err := o.graph(e)
	if err != nil {
		return err
	}
	result, err := rules.Repeat(g, before, e)
	if err != nil {
		return err
	}
	after := result.State
	after.PrevHash = e.Hash
	o.states[e.RunID] = after
	return errors.Join(invariant.Check(after, g), invariant.CheckChange(before, after, e.Records))
}

func (o *oracle) graph(e *machine.Entry) (*machine.Graph, error) {
	if g := o.graphs[e.RunID]; g != nil {
		return g, nil
	}
	p := o.node.process()
	s, err := p.store.Head(context.Background(), p.ns, e.RunID)
	if err != nil {
		return nil, err
	}
	prog, err := p.house.Programs().ProgramOf(context.Background(), p.ns, s)
	if err != nil {
		return nil, err
	}
	o.graphs[e.RunID] = prog.Graph
	return prog.Graph, nil
}

// once checks that an id has one effect and that a turn has one completion.
func (o *oracle) once(e *machine.Entry) {
	if e.Input.ID != "" {
		key := fmt.Sprintf("%s %d %s", e.RunID, machine.KindOf(e.Input.Command), e.Input.ID)
		if before, ok := o.ids[key]; ok {
			o.world.fail("an id takes effect once", "%s: %s in records %d and %d", o.node.name, key, before, e.First)
		}
		o.ids[key] = e.First
	}
	for i := range e.Records {
		done, ok := e.Records[i].Body.(*machine.TurnCompleted)
		if !ok {
			continue
		}
		key := fmt.Sprintf("%s %d", e.RunID, done.TurnSeq)
		if before, ok := o.turns[key]; ok {
			o.world.fail("a turn is completed once", "%s: turn %d of %s in records %d and %d", o.node.name, done.TurnSeq, e.RunID, before, e.Records[i].Seq)
		}
		o.turns[key] = e.Records[i].Seq
	}
}

// spent counts what testdata/pack.json bounds.
type spent struct {
	visits       map[string]int
	total, calls int
	tokens, cost int64
	talk         talk
	loops        loops
	heeds        heeds
	purse
	desk    desk
	letters letters
	effects effects
}

// used adds the usage in a record.
func (s *spent) used(u *machine.Usage) {
	s.tokens += u.InputTokens + u.OutputTokens
	s.cost += u.CostMicro
	s.calls += u.ToolCalls
}

// The bounds of testdata/pack.json.
var maxVisits = map[string]int{"plan": 3, "desk": 4, "shop": 4}

const (
	maxTotal  = 9
	maxCalls  = 9
	tillCalls = 24
	maxTokens = 1500
	maxCost   = 300 // micro-dollars
)

// bounded checks that every bound is exact, independent of the machine.
func (o *oracle) bounded(e *machine.Entry) {
	s := o.spent[e.RunID]
	if s == nil {
		s = &spent{visits: map[string]int{}, talk: newTalk(), loops: newLoops(), heeds: newHeeds(), desk: desk{}, effects: newEffects(), letters: letters{sent: map[uint32]string{}, attempts: map[uint32]int{}}}
		if state := o.states[e.RunID]; state != nil {
			s.opens(e, state.PackID)
			s.letters.opens(e)
		}
		o.spent[e.RunID] = s
	}
	for i := range e.Records {
		switch b := e.Records[i].Body.(type) {
		case *machine.Transition:
			s.visits[b.To]++
			s.total++
		case *machine.Origin:
			for _, v := range b.State.Visits {
				s.visits[v.State] = v.N
			}
		case *machine.StepRequested:
			if b.Kind != machine.KindModel && (b.About == nil || b.About.Role == machine.RoleCompensate) {
				s.calls++
			}
		case *machine.TurnCompleted:
			s.used(&b.Usage)
		case *machine.TurnFailed:
			s.used(&b.Usage)
		case *machine.StepResolved:
			s.used(&b.Usage)
		case *machine.StepCancelled:
			s.used(&b.Usage)
		case *machine.ModelUpdated:
			s.used(&b.Usage)
		}
		o.spoken(e, &e.Records[i], s)
		o.steered(e, &e.Records[i], &s.heeds)
		o.paid(e, &e.Records[i], s)
		o.consented(e, &e.Records[i], s)
		o.effected(e, &e.Records[i], &s.effects)
	}
	o.count(e, s)
	o.stops(e, s)
	most := tillCalls
	if !s.keepsLedger {
		o.repeated(e, s)
		most = maxCalls
	}
	if state := o.states[e.RunID]; state != nil && (state.Tokens != s.tokens || state.CostMicro != s.cost || state.ToolCalls != s.calls || state.TotalVisits != s.total) {
		o.world.fail("totals are those of the records", "%s: %s has %d tokens, %d micro-dollars, %d calls, %d visits, its records have %d, %d, %d, %d",
			o.node.name, e.RunID, state.Tokens, state.CostMicro, state.ToolCalls, state.TotalVisits, s.tokens, s.cost, s.calls, s.total)
	}
	for state, most := range maxVisits {
		if s.visits[state] > most {
			o.world.fail("bounds are exact", "%s: %s entered %q %d times", o.node.name, e.RunID, state, s.visits[state])
		}
	}
	if lent := s.lent(); s.total > maxTotal || int64(s.calls-s.effects.undos)+lent > least(int64(most), s.lease.ToolCalls) {
		o.world.fail("bounds are exact", "%s: %s has %d visits and %d calls, its agents may make %d", o.node.name, e.RunID, s.total, s.calls, lent)
	}
}

// approved checks that a transition that only approvers may request was requested by one, directly or
// passed on by others, or was made by the timeout of the state.
func (o *oracle) approved(e *machine.Entry) {
	if _, ok := e.Input.Command.(machine.FireTimer); ok {
		return
	}
	who := e.Input.Principal
	if f := &o.spent[e.RunID].effects; f.followed == e.First {
		who = f.by
	}
	for i := range e.Records {
		if b, ok := e.Records[i].Body.(*machine.Transition); ok && (b.From == "vault" || b.From == "gate") && !strings.HasSuffix(who, approver.Principal.Name()) {
			o.world.fail("only approvers approve", "%s: record %d of %s leaves %q by %q", o.node.name, e.Records[i].Seq, e.RunID, b.From, who)
		}
	}
}
