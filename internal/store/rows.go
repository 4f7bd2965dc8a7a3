package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Consumed looks up a used idempotency id. key contains the scope, the kind, the id, and the run or the
// principal. The result also contains the body hash and the records. For an id of a principal it also
// contains the run that the id started. The second result is false if the id was not used.
func (s *Store) Consumed(ctx context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error) {
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
		// The body hash is erased, so a repeat of the request cannot be recognized.
		return layout.Withheld(txn, ns, key.RunID)
	})
	if err != nil {
		return key, false, fmt.Errorf("idempotency id %q: %w", key.ID, err)
	}
	return key, found, nil
}

// ArtifactVersions lists the writes of one artifact with seq <= atSeq, in order. If newestOnly is true,
// it returns at most the last one. The values themselves are in the records with those seqs.
func (s *Store) ArtifactVersions(ctx context.Context, ns uint32, run, artifact string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error) {
	return s.versions(ctx, ns, run, artifact, 0, atSeq, newestOnly)
}

// ArtifactVersionsAfter lists the writes of one artifact with after < seq <= atSeq, in order.
func (s *Store) ArtifactVersionsAfter(ctx context.Context, ns uint32, run, artifact string, after, atSeq uint64) ([]machine.ArtifactVersion, error) {
	return s.versions(ctx, ns, run, artifact, after, atSeq, false)
}

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
		if out, err = layout.Listed(txn, ns, run, artifact, after, atSeq, newestOnly); err != nil || atSeq <= head.Seq {
			return err
		}
		tail, err := layout.TailOf(txn, ns, head)
		for _, v := range layout.Unlisted(head, tail) {
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

// MessageRows returns the rows from (inclusive) to next (exclusive) of a state's conversation, in
// order.
func (s *Store) MessageRows(ctx context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error) {
	var out []machine.MessageRow
	p := layout.MessagePrefix(nil, ns, run, state)
	err := s.view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Seek(layout.Number(bytes.Clone(p), from)); layout.Has(it, p); it.Next() {
			n, err := layout.LastNumber(it.Key(), p)
			if err != nil || n >= next {
				return err
			}
			err = layout.ValueOf(it, func(v []byte) error {
				seq, err := codec.DecodeNumber(v)
				out = append(out, machine.MessageRow{State: state, N: n, Seq: seq})
				return err
			})
			if err != nil {
				return err
			}
		}
		if uint64(len(out)) < next-from {
			if there, err := layout.There(txn, ns, run); err != nil || !there {
				return errors.Join(err, layout.Gone(txn, ns, run, nil))
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("messages of state %q of run %q: %w", state, run, err)
	}
	return out, nil
}

// Effect returns the row of a business key. The second result is false if no step has the key.
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
