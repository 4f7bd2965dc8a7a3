package query

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ConflictRecord returns the record that was committed before a refused request, and that the error
// (for example SEQ_MISMATCH) names. The caller needs only the right to see the run. So a person that
// may approve but not read runs can learn which principal has already decided.
func (r *Service) ConflictRecord(ctx context.Context, ref runtime.RunRef, seq uint64) (runtime.RecordRow, error) {
	key, err := r.cfg.Engine.Find(ref)
	if err != nil {
		return runtime.RecordRow{}, err
	}
	entry, err := r.cfg.Store.Entry(ctx, key.Namespace, key.ID, seq)
	if err != nil {
		return runtime.RecordRow{}, fmt.Errorf("query: read record %d of run %s: %w", seq, key.ID, err)
	}
	at := int(seq - entry.First)
	if seq < entry.First || at >= len(entry.Records) {
		return runtime.RecordRow{}, fmt.Errorf("query: run %s: record %d: %w", key.ID, seq, machine.ErrNoRecord)
	}
	return runtime.RecordRow{
		RunID: entry.RunID, Record: entry.Records[at], PrevSeq: seq - 1, PrevHash: entry.PrevHash, Hash: entry.Hash, Erased: entry.Erased,
		Cursor: runtime.Cursor{Epoch: r.cfg.Store.Epoch(), Position: entry.Cursor, Index: uint16(at)},
	}, nil
}
