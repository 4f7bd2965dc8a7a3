package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// reporter is what *testing.T, *testing.F and *rapid.T have in common.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// ledger is the plainest host of one run: it stores each batch, keeps the rows
// that batches add and remove, and after each checks that they are exactly
// those which the state implies.
type ledger struct {
	t       reporter
	g       *machine.Graph
	state   *machine.State
	moment  Moment
	entries []machine.Entry
	timers  map[machine.Timer]bool
	outbox  map[machine.OutboxRow]bool
	index   map[[2]string]bool
	ready   bool
	ids     map[string]machine.Dedupe
	rows    []machine.MessageRow
	writes  []machine.ArtifactVersion
	effects map[[32]byte]machine.Effect
}

func newLedger(t reporter, g *machine.Graph) *ledger {
	return &ledger{
		t: t, g: g, timers: map[machine.Timer]bool{}, outbox: map[machine.OutboxRow]bool{},
		index: map[[2]string]bool{}, ids: map[string]machine.Dedupe{},
		effects: map[[32]byte]machine.Effect{},
	}
}

// apply steps the run and stores the batch. Check (3), the look-up of known
// ids, is the host's and made here.
func (l *ledger) apply(in machine.Input) (machine.Result, error) {
	l.t.Helper()
	if row, ok := l.ids[dedupeKey(in)]; ok && in.ID != "" {
		if row.BodyHash != in.BodyHash {
			return machine.Result{State: l.state}, &machine.Error{Code: machine.CodeAlreadyExists, Reason: "ID_TAKEN", Field: "id", Message: in.ID}
		}
		return machine.Result{State: l.state, Disposition: machine.IgnoredDuplicate}, nil
	}
	before := clone(l.state)
	r, err := Step(l.g, l.state, in)
	for err == nil && (l.stamp(&in, r.Batch) || fill(&in, r.Batch)) {
		r, err = Step(l.g, l.state, in)
	}
	if !reflect.DeepEqual(before, l.state) {
		l.t.Fatalf("Step changed the old state:\nwas %+v\nis  %+v", before, l.state)
	}
	if err != nil {
		if r.Batch != nil || r.State != l.state {
			l.t.Fatalf("error %v with batch %v, state %v", err, r.Batch, r.State)
		}
		return r, err
	}
	if r.Batch == nil {
		if r.State != l.state {
			l.t.Fatalf("no batch, but another state")
		}
		return r, nil
	}
	l.store(r)
	return r, nil
}

// stamp refuses the requests that would take a business key which a step has.
func (l *ledger) stamp(in *machine.Input, b *machine.Batch) (again bool) {
	c, ok := in.Command.(machine.RequestSteps)
	if !ok || b == nil {
		return false
	}
	c.Requests = slices.Clone(c.Requests)
	for i := range c.Requests {
		r := &c.Requests[i]
		if _, taken := l.effects[r.Effect]; taken && r.Denied == nil && slices.Contains(b.Wanted, r.Effect) {
			r.Denied, again = &machine.Denial{Code: machine.DuplicateEffect}, true
		}
	}
	in.Command = c
	return again
}

// fill stamps the payloads of the sidecar's own steps.
func fill(in *machine.Input, b *machine.Batch) (again bool) {
	if b == nil {
		return false
	}
	for _, r := range Unfilled(b) {
		payload := fmt.Appendf(nil, `{"idempotency_key":"R/%d"}`, r.About.Step)
		in.Fills = append(in.Fills, machine.Fill{Step: r.Step, Payload: payload, Hash: sha256.Sum256(payload)})
		again = true
	}
	return again
}

// storeEffects keeps the rows of business keys; none is taken twice, and only its step
// settles it.
func (l *ledger) storeEffects(b *machine.Batch) {
	l.t.Helper()
	for _, e := range b.Effects {
		row, there := l.effects[e.Key]
		l.remove(e.Op == machine.EffectTaken && !there || e.Op != machine.EffectTaken && there && row.Step == e.Step, "business key", e)
		l.effects[e.Key] = e.Effect
		if e.Op == machine.EffectFreed {
			delete(l.effects, e.Key)
		}
	}
}

func dedupeKey(in machine.Input) string { return fmt.Sprintf("%T/%s", in.Command, in.ID) }

func (l *ledger) store(r machine.Result) {
	l.t.Helper()
	b := r.Batch
	var seq uint64
	if l.state != nil {
		seq = l.state.Seq
	}
	if b.Prev != seq || b.State != r.State || len(b.Records) == 0 {
		l.t.Fatalf("batch after %d: prev %d with %d records", seq, b.Prev, len(b.Records))
	}
	for i := range b.Records {
		rec := &b.Records[i]
		if seq++; rec.Seq != seq || rec.At != r.State.At || rec.Principal != b.Input.Principal {
			l.t.Fatalf("record %d is %+v", seq, rec)
		}
	}
	if r.State.Seq != seq {
		l.t.Fatalf("state at %d after record %d", r.State.Seq, seq)
	}
	l.entries = append(l.entries, machine.Entry{RunID: r.State.RunID, First: b.Prev + 1, Input: b.Input, Records: b.Records, Hash: fakeHash(seq)})
	if err := errors.Join(CheckChange(l.state, r.State, b.Records), CheckSettled(l.state, b)); err != nil {
		l.t.Fatal(err)
	}
	for i := range b.Records {
		l.moment = l.moment.After(b.Records[i].Body)
	}
	if got, want := l.moment.Status(l.g), StatusOf(l.g, r.State); got != want || l.moment.State != r.State.Current {
		l.t.Fatalf("the records up to %d say %s in %q, the state says %s in %q", seq, got, l.moment.State, want, r.State.Current)
	}
	next := *r.State
	next.PrevHash = fakeHash(seq)
	l.state = &next
	l.storeRows(b)
	l.storeEffects(b)
	l.check()
}

// fakeHash stands for the store's hash chain.
func fakeHash(seq uint64) (h [32]byte) {
	binary.BigEndian.PutUint64(h[:], seq)
	return h
}

func (l *ledger) storeRows(b *machine.Batch) {
	l.t.Helper()
	for _, row := range b.Consumed {
		if row.First != b.Prev+1 || row.Last != b.State.Seq {
			l.t.Fatalf("consumed %+v", row)
		}
		l.ids[dedupeKey(b.Input)] = row
	}
	for _, timer := range b.TimersCleared {
		l.remove(l.timers[timer], "timer", timer)
		delete(l.timers, timer)
	}
	for _, timer := range b.TimersSet {
		l.remove(!l.timers[timer], "set timer", timer)
		l.timers[timer] = true
	}
	for _, row := range b.OutboxRemoved {
		l.remove(l.outbox[row], "outbox row", row)
		delete(l.outbox, row)
	}
	for _, row := range b.OutboxAdded {
		l.remove(!l.outbox[row], "added outbox row", row)
		l.outbox[row] = true
	}
	for _, c := range b.Index {
		key := [2]string{c.Index, c.Value}
		l.remove(l.index[key] != c.Add, "index", c)
		l.index[key] = c.Add
	}
	if b.ReadyChanged == (b.Ready == l.ready) {
		l.t.Fatalf("ready %v -> %v, changed %v", l.ready, b.Ready, b.ReadyChanged)
	}
	l.ready = b.Ready
	l.rows = append(l.rows, b.Messages...)
	l.writes = append(l.writes, b.Writes...)
}

func (l *ledger) remove(ok bool, what string, row any) {
	l.t.Helper()
	if !ok {
		l.t.Fatalf("batch for %s %+v, which is in the other state already", what, row)
	}
}

// check holds the rows against the state.
func (l *ledger) check() {
	l.t.Helper()
	if err := CheckState(l.state, l.g); err != nil {
		l.t.Fatal(err)
	}
	timers := map[machine.Timer]bool{}
	for _, timer := range Timers(l.state) {
		timers[timer] = true
	}
	if !maps.Equal(timers, l.timers) {
		l.t.Fatalf("timers %v, should be %v", l.timers, timers)
	}
	outbox := map[machine.OutboxRow]bool{}
	for _, row := range Outbox(l.g, l.state) {
		outbox[row] = true
	}
	kept := maps.Clone(l.outbox)
	maps.DeleteFunc(kept, func(r machine.OutboxRow, _ bool) bool { return r.Kind == machine.OutboxCancel })
	if !maps.Equal(outbox, kept) {
		l.t.Fatalf("outbox %v, should be %v", kept, outbox)
	}
	for _, c := range Indexes(l.state) {
		if !l.index[[2]string{c.Index, c.Value}] {
			l.t.Fatalf("index %v lacks %+v", l.index, c)
		}
	}
	for i := range l.state.Steps {
		step := &l.state.Steps[i]
		row, there := l.effects[step.Effect]
		open := step.Status == machine.StepStatusPending || step.Status == machine.StepStatusOK && l.state.Undo == nil && !l.state.Status.Terminal()
		if step.Effect != [32]byte{} && open && (!there || row.Step != step.Step || row.AnswerSeq != step.AnswerSeq) {
			l.t.Fatalf("step %+v has the row %+v", step, row)
		}
	}
	if Ready(l.g, l.state) != l.ready {
		l.t.Fatalf("ready index says %v", l.ready)
	}
}

// replay proves that the journal alone gives the same state.
func (l *ledger) replay() {
	l.t.Helper()
	if l.state == nil {
		return
	}
	s, err := Replay(l.g, l.entries)
	if err != nil {
		l.t.Fatal(err)
	}
	if !reflect.DeepEqual(s, l.state) {
		l.t.Fatalf("replay:\ngot  %+v\nwant %+v", s, l.state)
	}
}

// value folds the writes of an artifact up to a record, as a reader does.
func (l *ledger) value(name string, at uint64) []byte {
	var values [][]byte
	for _, w := range l.writes {
		if w.Name == name && w.Seq <= at {
			values = append(values, writeOf(l.record(w.Seq).Body, name))
		}
	}
	decl := l.g.Artifacts[name]
	return machine.FoldArtifact(decl.Type, decl.Mode, values)
}

func (l *ledger) record(seq uint64) machine.Record {
	for i := range l.entries {
		e := &l.entries[i]
		if n := seq - e.First; seq >= e.First && n < uint64(len(e.Records)) {
			return e.Records[n]
		}
	}
	l.t.Fatalf("no record %d", seq)
	return machine.Record{}
}

// writeOf is the value that a record holds for an artifact.
func writeOf(b machine.Body, name string) []byte {
	var writes []machine.ArtifactWrite
	switch b := b.(type) {
	case *machine.Transition:
		writes = b.Artifacts
	case *machine.TurnCompleted:
		writes = b.Artifacts
	case *machine.StepResolved:
		writes = b.Artifacts
	case *machine.ArtifactsSet:
		writes = b.Artifacts
	case *machine.Ended:
		writes = b.Artifacts
	case *machine.CompensationStarted:
		writes = b.Artifacts
	case *machine.Origin:
		writes = b.Artifacts
	}
	for _, w := range writes {
		if w.Name == name {
			return w.Value
		}
	}
	return nil
}

// clone copies a state with everything that it refers to.
func clone(s *machine.State) *machine.State {
	if s == nil {
		return nil
	}
	c := *s
	if s.Turn != nil {
		turn := *s.Turn
		c.Turn = &turn
	}
	c.Visits, c.Edges, c.Queue = slices.Clone(s.Visits), slices.Clone(s.Edges), slices.Clone(s.Queue)
	c.Steps, c.Artifacts = slices.Clone(s.Steps), slices.Clone(s.Artifacts)
	c.Conversations, c.Labels, c.Texts = slices.Clone(s.Conversations), slices.Clone(s.Labels), slices.Clone(s.Texts)
	for i := range c.Steps {
		if m := c.Steps[i].Model; m != nil {
			own := *m
			c.Steps[i].Model = &own
		}
		if call := c.Steps[i].Call; call != nil {
			own := *call
			c.Steps[i].Call = &own
		}
	}
	return &c
}
