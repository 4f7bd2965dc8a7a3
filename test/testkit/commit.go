package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Commit stores a batch, or holds it, or meets the fault that was ordered.
func (s *Store) Commit(_ context.Context, batch *machine.Batch) (machine.Committed, error) {
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return machine.Committed{}, machine.ErrIndeterminate
	}
	if s.hold {
		h := heldCommit{batch: batch, done: make(chan heldResult, 1)}
		s.held = append(s.held, h)
		close(s.holding)
		s.holding = make(chan struct{})
		s.mu.Unlock()
		result := <-h.done
		return result.done, result.err
	}
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if f := fault(batch); f.Err != nil {
			return s.fail(batch, f)
		}
	}
	return s.store(batch)
}

// store stores a batch and counts it.
func (s *Store) store(batch *machine.Batch) (machine.Committed, error) {
	done, err := s.Backend.Commit(context.Background(), batch)
	if err == nil {
		s.counter.add()
	}
	return done, err
}

func (s *Store) fail(batch *machine.Batch, f Fault) (machine.Committed, error) {
	if f.Stored {
		if _, err := s.store(batch); err != nil {
			return machine.Committed{}, err
		}
	}
	var refusal *machine.Error
	if !errors.As(f.Err, &refusal) && !errors.Is(f.Err, machine.ErrConsumed) && !errors.Is(f.Err, machine.ErrSeqConflict) && !errors.Is(f.Err, machine.ErrEffectTaken) {
		s.Crash()
	}
	return machine.Committed{}, f.Err
}

// checkpointEvery is how many records stand between two checkpoints, as in the
// real store.
const checkpointEvery = 256

// Commit checks the preconditions and stores everything, or nothing.
func (d *disk) Commit(_ context.Context, b *machine.Batch) (machine.Committed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := runKey{b.State.Namespace, b.State.RunID}
	run := d.runs[key]
	if err := d.checkPreconditions(key.ns, run, b); err != nil {
		return machine.Committed{}, err
	}
	if run == nil {
		run = &runRows{writes: make(map[string][]machine.ArtifactVersion), messages: make(map[string][]machine.MessageRow)}
		d.runs[key] = run
		d.order[key.ns] = append(d.order[key.ns], key.id)
	}
	entry := d.append(key, run, b)
	state := *b.State
	state.PrevHash = entry.Hash
	run.head = &state
	if b.Prev/checkpointEvery != state.Seq/checkpointEvery {
		run.checkpoints = append(run.checkpoints, run.head)
	}
	for _, row := range b.Consumed {
		d.consumed[consumedKey(key.ns, row)] = row
	}
	for i := range b.Effects {
		if e := &b.Effects[i]; e.Op == machine.EffectFreed {
			delete(d.effects, effectKey{key.ns, e.Key})
		} else {
			d.effects[effectKey{key.ns, e.Key}] = e.Effect
		}
	}
	for _, w := range b.Writes {
		run.writes[w.Name] = append(run.writes[w.Name], w)
	}
	for _, m := range b.Messages {
		run.messages[m.State] = append(run.messages[m.State], m)
	}
	for _, u := range b.Settled {
		if labels, counted := b.State.AccountLabels(); counted {
			d.usage = append(d.usage, machine.UsageRow{
				Namespace: key.ns, Day: machine.UsageDay(b.State.At), Pack: b.State.PackID, State: u.State, Model: u.Model, Tool: u.Tool, Labels: labels, UsageSum: u.UsageSum,
			})
		}
	}
	d.queues(key.ns, b)
	d.indexes(key, b)
	return machine.Committed{Cursor: entry.Cursor, PrevHash: entry.PrevHash, Hash: entry.Hash}, nil
}

// checkPreconditions evaluates the preconditions of a batch.
func (d *disk) checkPreconditions(ns uint32, run *runRows, b *machine.Batch) error {
	var last uint64
	if run != nil {
		last = run.head.Seq
	}
	if last != b.Prev {
		return fmt.Errorf("run %s is at %d, the batch follows %d: %w", b.State.RunID, last, b.Prev, machine.ErrSeqConflict)
	}
	for _, row := range b.Consumed {
		if _, taken := d.consumed[consumedKey(ns, row)]; taken {
			return fmt.Errorf("id %q: %w", row.ID, machine.ErrConsumed)
		}
	}
	for i := range b.Effects {
		if e := &b.Effects[i]; e.Op == machine.EffectTaken {
			if _, taken := d.effects[effectKey{ns, e.Key}]; taken {
				return fmt.Errorf("key %x: %w", e.Key, machine.ErrEffectTaken)
			}
		}
	}
	return nil
}

func (d *disk) append(key runKey, run *runRows, b *machine.Batch) machine.Entry {
	entry := machine.Entry{
		RunID: key.id, Cursor: uint64(len(d.journal[key.ns])) + 1, First: b.Prev + 1,
		Input: b.Input, Records: b.Records,
	}
	if run.head != nil {
		entry.PrevHash = run.head.PrevHash
	}
	var link [40]byte
	copy(link[:], entry.PrevHash[:])
	binary.BigEndian.PutUint64(link[32:], b.State.Seq)
	entry.Hash = sha256.Sum256(link[:])
	run.entries = append(run.entries, entry)
	d.journal[key.ns] = append(d.journal[key.ns], entry)
	return entry
}

// queues applies timers and outbox rows.
func (d *disk) queues(ns uint32, b *machine.Batch) {
	for _, t := range b.TimersCleared {
		t.Namespace = ns
		if i, ok := slices.BinarySearchFunc(d.timers, t, compareTimers); ok {
			d.timers = slices.Delete(d.timers, i, i+1)
		}
	}
	for _, t := range b.TimersSet {
		t.Namespace = ns
		if i, ok := slices.BinarySearchFunc(d.timers, t, compareTimers); !ok {
			d.timers = slices.Insert(d.timers, i, t)
		}
	}
	for _, o := range b.OutboxRemoved {
		o.Namespace = ns
		delete(d.outbox, o)
	}
	for _, o := range b.OutboxAdded {
		o.Namespace = ns
		d.outbox[o] = machine.StepHolder{}
	}
}

func (d *disk) indexes(key runKey, b *machine.Batch) {
	if b.ReadyChanged {
		if b.Ready {
			d.ready[key] = struct{}{}
		} else {
			delete(d.ready, key)
		}
	}
	for _, change := range b.Index {
		row := indexKey{ns: key.ns, index: change.Index, value: change.Value, run: key.id}
		if change.Add {
			d.index[row] = struct{}{}
		} else {
			delete(d.index, row)
		}
	}
}
