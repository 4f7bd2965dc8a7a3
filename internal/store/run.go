package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These constants limit one read of a run, in records and in bytes, so that its transaction is open
// only for a short time.
const (
	pageRecords = 256
	pageBytes   = 1 << 20
)

// bound sets the defaults of a page and reduces its limits to the maximum.
func bound(p machine.Page) machine.Page {
	if p.Records <= 0 || p.Records > pageRecords {
		p.Records = pageRecords
	}
	if p.Bytes <= 0 || p.Bytes > pageBytes {
		p.Bytes = pageBytes
	}
	return p
}

// Head returns the current state of a run. If the run does not exist, the error is machine.ErrNoRun.
// New inputs continue from this state. So a missing entry with later entries behind it is damage, and
// not the end of the run.
func (s *Store) Head(ctx context.Context, ns uint32, run string) (*machine.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var st *machine.State
	err := s.view(func(txn *layout.Txn) (err error) {
		st, err = s.headAt(ctx, txn, ns, run)
		if err == nil && layout.AnyFrom(txn, layout.RunKey(nil, layout.KindEntry, ns, run), st.Seq+1) {
			err = layout.NewDamage("", "entry %d is missing, later ones are there", st.Seq+1)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("head of run %q: %w", run, err)
	}
	return st, nil
}

// Entries returns the journal entries of a run that contain records >= from, in order. For an unknown
// run it returns none, and for a deleted run an error. It reads at most 256 entries and about 1 MiB.
func (s *Store) Entries(ctx context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error) {
	page = bound(page)
	var out []machine.Entry
	err := s.view(func(txn *layout.Txn) error {
		// Every entry up to the record of the stored state must exist. Otherwise the missing entry is
		// damage.
		last, err := layout.HeadSeq(txn, layout.HeadKey(ns, run))
		if err == nil && last == 0 {
			err = layout.MissingRunError(txn, ns, run, nil)
		}
		if err != nil || last == 0 {
			return err
		}
		first, err := firstOf(txn, ns, run, from)
		if err != nil {
			return err
		}
		if first == 0 {
			return layout.NewDamage("", "there is no entry at or before record %d", from)
		}
		bytes := 0
		for len(out) < page.Records && bytes < page.Bytes && ctx.Err() == nil {
			value, err := layout.Get(txn, layout.EntryKey(ns, run, first))
			if err != nil {
				return err
			}
			if value == nil {
				if first > last {
					return nil
				}
				return layout.NewDamage("", "entry %d is missing", first)
			}
			e, err := txn.Entry(run, value)
			if err != nil {
				return fmt.Errorf("entry %d: %w", first, err)
			}
			bytes += len(value)
			if first += uint64(len(e.Records)); first > from {
				out = append(out, e)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("entries of run %q: %w", run, err)
	}
	return out, nil
}

// Entry returns the journal entry that contains the record seq. If there is none, the error is
// machine.ErrNoRecord.
func (s *Store) Entry(ctx context.Context, ns uint32, run string, seq uint64) (machine.Entry, error) {
	var e machine.Entry
	err := s.view(func(txn *layout.Txn) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		first, err := firstOf(txn, ns, run, max(seq, 1))
		if err != nil {
			return err
		}
		value, err := layout.Get(txn, layout.EntryKey(ns, run, first))
		if err != nil {
			return err
		}
		if value == nil {
			return noRecord(txn, ns, run, seq)
		}
		e, err = txn.Entry(run, value)
		if err == nil && (seq < e.First || seq >= e.First+uint64(len(e.Records))) {
			return noRecord(txn, ns, run, seq)
		}
		return err
	})
	if err != nil {
		return e, fmt.Errorf("record %d of run %q: %w", seq, run, err)
	}
	return e, nil
}

// noRecord returns the error for a record that was not found: damage if the run must have the record,
// otherwise machine.ErrNoRecord.
func noRecord(txn *layout.Txn, ns uint32, run string, seq uint64) error {
	last, err := layout.LastSeq(txn, layout.HeadKey(ns, run))
	if err == nil && seq >= 1 && seq <= last {
		err = layout.NewDamage("", "the entry with record %d is missing", seq)
	}
	if err == nil && last == 0 {
		return layout.MissingRunError(txn, ns, run, machine.ErrNoRecord)
	}
	if err == nil {
		err = machine.ErrNoRecord
	}
	return err
}

// firstOf finds the entry that can contain the record seq: the last entry that begins at or before it. It returns
// the seq of the entry's first record, or 0 if there is none. For the first record it returns 1 without
// a read. It first tries seq itself, because a caller that reads page by page passes the first record of an
// entry. Otherwise it scans backwards.
func firstOf(txn *layout.Txn, ns uint32, run string, seq uint64) (uint64, error) {
	if seq <= 1 {
		return 1, nil
	}
	if begins, err := txn.Has(layout.EntryKey(ns, run, seq)); err != nil || begins {
		return seq, err
	}
	p := layout.RunKey(nil, layout.KindEntry, ns, run)
	it := txn.Scan(kv.Range{Reverse: true, Prefix: p, KeysOnly: true})
	defer it.Close()
	it.Seek(layout.EntryKey(ns, run, seq))
	if !layout.AtPrefix(it, p) {
		return 0, nil
	}
	key := it.Key()
	if len(key) != len(p)+8 {
		return 0, fmt.Errorf("malformed entry key %x", key)
	}
	return binary.BigEndian.Uint64(key[len(p):]), nil
}

// Checkpoint returns the newest checkpoint of a run whose seq is not greater than the given seq, from
// which a replay starts. If it returns nil, the replay must start at the first entry.
func (s *Store) Checkpoint(ctx context.Context, ns uint32, run string, seq uint64) (*machine.State, error) {
	var st *machine.State
	err := s.view(func(txn *layout.Txn) error {
		p := layout.RunKey(nil, layout.KindSnapshot, ns, run)
		it := txn.Scan(kv.Range{Reverse: true, Prefix: p})
		defer it.Close()
		it.Seek(layout.Number(bytes.Clone(p), seq))
		if !layout.AtPrefix(it, p) {
			return ctx.Err()
		}
		value, err := layout.CopyOf(it)
		if err != nil {
			return err
		}
		st, err = txn.Head(value)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint of run %q: %w", run, err)
	}
	return st, nil
}

// Replay applies the inputs in tail, the last entries of a run, to head, the state before these
// entries. It returns the resulting state, whose PrevHash is the hash of the last entry. The code that
// runs the state machine provides this function, because the store knows neither packs nor rules.
type Replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error)

// ReplayWith sets the function that computes the state of runs that have entries after their stored
// state. It must be called before the first read of a run. Until then, reading a run with these entries
// returns an error.
func (s *Store) ReplayWith(replay func(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error)) {
	r := Replay(replay)
	s.replay.Store(&r)
}

// errNoReplay means that ReplayWith was not called.
var errNoReplay = errors.New("the run has commits after its stored head, and the store has no function to replay them")

// headAt returns the state of a run after its last entry. It replays the entries after the stored head
// (an earlier state), which have fewer than layout.HeadEvery records.
func (s *Store) headAt(ctx context.Context, txn *layout.Txn, ns uint32, run string) (*machine.State, error) {
	head, err := layout.StoredHead(txn, ns, run)
	if err != nil {
		return nil, err
	}
	tail, err := layout.TailOf(txn, ns, head)
	if err != nil {
		return nil, err
	}
	return s.replayTail(ctx, txn, head, tail)
}

// replayTail returns the state after the entries tail, which follow the stored head (an earlier state).
// The replay reads other rows, for example the pack, in txn.
func (s *Store) replayTail(ctx context.Context, txn *layout.Txn, head *machine.State, tail []machine.Entry) (*machine.State, error) {
	if len(tail) == 0 {
		return head, nil
	}
	replay := s.replay.Load()
	if replay == nil {
		return nil, errNoReplay
	}
	st, err := (*replay)(context.WithValue(ctx, inView{s}, txn), head, tail)
	if err != nil {
		return nil, err
	}
	last := &tail[len(tail)-1]
	if seq := last.First + uint64(len(last.Records)) - 1; st.Seq != seq {
		return nil, layout.NewDamage("", "the replay of run %q ends at record %d, its last entry with record %d", st.RunID, st.Seq, seq)
	}
	after := *st
	after.Unlisted = layout.UnlistedVersions(head, tail)
	return &after, nil
}

// Journal returns the entries of all runs of a namespace whose cursor is greater than after, in the
// order of cursors. It skips deleted entries. The second result is the last cursor that it has read. No
// other entry exists up to this cursor. It reads at most 256 entries and about 1 MiB.
func (s *Store) Journal(ctx context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error) {
	page = bound(page)
	tail := s.readTimestamps.tail(ns)
	if after >= tail {
		return nil, after, nil
	}
	out := make([]machine.Entry, 0, min(uint64(page.Records), tail-after))
	read := 0
	err := s.view(func(txn *layout.Txn) error {
		return layout.EachPlace(txn, ns, after+1, func(cursor uint64, place codec.EntryRef) (bool, error) {
			if cursor > tail || len(out) == page.Records || read >= page.Bytes || ctx.Err() != nil {
				return false, ctx.Err()
			}
			if place.Gap() {
				after = cursor
				return true, nil
			}
			e, n, err := layout.EntryAt(txn, ns, place)
			if err != nil {
				return false, fmt.Errorf("cursor %d: %w", cursor, err)
			}
			out, read, after = append(out, e), read+n, cursor
			return true, nil
		})
	})
	if err == nil && len(out) == 0 && after < tail {
		err = layout.NewDamage("", "a row of the order of everything is missing at cursor %d", after+1)
	}
	if err != nil {
		return nil, after, fmt.Errorf("journal: %w", err)
	}
	return out, after, nil
}

// Tail returns the newest cursor of a namespace, or 0 if the namespace is empty.
func (s *Store) Tail(ctx context.Context, ns uint32) (uint64, error) {
	return s.readTimestamps.tail(ns), ctx.Err()
}

// FindRequestID returns what the store knows about a request id, or false if the id was not used. key
// contains the scope, the kind, the id, and the run or the principal. The result adds the hash of the
// request's body and the records that the request made. If the id belongs to a principal, it also adds
// the run that the request started.
func (s *Store) FindRequestID(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error) {
	if err := ctx.Err(); err != nil {
		return key, false, err
	}
	found := false
	err := s.view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, layout.DedupeKey(make([]byte, 0, 96), ns, &key))
		if err != nil || value == nil {
			return err
		}
		found = true
		var erased bool
		if key, erased, err = txn.Dedupe(key, value); err != nil || !erased {
			return err
		}
		// The hash of the body is erased, so it is unknown whether the request is a repeat.
		return layout.Withheld(txn, ns, key.RunID)
	})
	if err != nil {
		return key, false, fmt.Errorf("idempotency id %q: %w", key.ID, err)
	}
	return key, found, nil
}

// ArtifactVersions lists the writes of one artifact with seq <= atSeq, in order. If newestOnly is true, it
// returns at most the last one. The values are in the records with these seqs. For an unknown run it returns
// none, and for a deleted or erased run an error.
func (s *Store) ArtifactVersions(ctx context.Context, ns uint32, run, artifact string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error) {
	return s.versions(ctx, ns, run, artifact, 0, atSeq, newestOnly)
}

// ArtifactVersionsAfter lists the writes of one artifact with after < seq <= atSeq, in order.
func (s *Store) ArtifactVersionsAfter(ctx context.Context, ns uint32, run, artifact string, after, atSeq uint64) ([]machine.ArtifactVersion, error) {
	return s.versions(ctx, ns, run, artifact, after, atSeq, false)
}

// versions returns the versions of an artifact with a seq above after and up to atSeq, from the artifact rows and
// from the entries that no artifact row lists yet.
func (s *Store) versions(ctx context.Context, ns uint32, run, artifact string, after, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error) {
	var out []machine.ArtifactVersion
	err := s.view(func(txn *layout.Txn) error {
		head, err := layout.StoredHead(txn, ns, run)
		if errors.Is(err, machine.ErrNoRun) && !machine.IsDeleted(err) {
			return nil
		}
		if err == nil && head.Erased != nil {
			err = head.Erased.Err()
		}
		if err != nil {
			return err
		}
		if out, err = layout.ListedVersions(txn, ns, run, artifact, after, atSeq, newestOnly); err != nil || atSeq <= head.Seq {
			return err
		}
		tail, err := layout.TailOf(txn, ns, head)
		for _, v := range layout.UnlistedVersions(head, tail) {
			if v.Name == artifact && v.Seq > after && v.Seq <= atSeq {
				out = append(out, v)
			}
		}
		return errors.Join(err, ctx.Err())
	})
	if err != nil {
		return nil, fmt.Errorf("artifact %q of run %q: %w", artifact, run, err)
	}
	if newestOnly && len(out) > 1 {
		out = out[len(out)-1:]
	}
	return out, nil
}

// MessageRows returns the messages from (inclusive) to next (exclusive) of a state's conversation, in order:
// the number of each message and its record. For an unknown run it returns none, and for a deleted run an
// error.
func (s *Store) MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error) {
	var out []machine.MessageRow
	p := layout.MessagePrefix(nil, ns, run, state)
	err := s.view(func(txn *layout.Txn) error {
		iterator := txn.Scan(kv.Range{Prefix: p})
		defer iterator.Close()
		for iterator.Seek(layout.Number(bytes.Clone(p), from)); layout.AtPrefix(iterator, p); iterator.Next() {
			n, err := layout.LastNumber(iterator.Key(), p)
			if err != nil || n >= next {
				return err
			}
			err = layout.ValueOf(iterator, func(v []byte) error {
				seq, err := codec.DecodeNumber(v)
				out = append(out, machine.MessageRow{State: state, N: n, Seq: seq})
				return err
			})
			if err != nil {
				return err
			}
		}
		if uint64(len(out)) < next-from {
			if there, err := layout.RunExists(txn, ns, run); err != nil || !there {
				return errors.Join(err, layout.MissingRunError(txn, ns, run, nil))
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("messages of state %q of run %q: %w", state, run, err)
	}
	return out, nil
}

// Effect returns the row of a business key. The second result is false if no step holds the key.
func (s *Store) Effect(ctx context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error) {
	var effect machine.Effect
	found := false
	err := s.view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, layout.EffectKey(make([]byte, 0, 40), ns, key))
		if err != nil || value == nil {
			return errors.Join(err, ctx.Err())
		}
		found = true
		effect, err = codec.DecodeEffect(value)
		return err
	})
	if err != nil {
		return effect, false, fmt.Errorf("business key %x: %w", key, err)
	}
	effect.Key = key
	return effect, found, nil
}
