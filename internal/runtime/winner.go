package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Winner reads the record that a SEQ_MISMATCH names, for whoever may see the run: an
// approver without the right to read it is told who decided, too.
func (e *Engine) Winner(ctx context.Context, ref RunRef, seq uint64) (RecordRow, error) {
	key, err := e.Find(ref)
	if err != nil {
		return RecordRow{}, err
	}
	entry, err := e.store.Entry(ctx, key.Namespace, key.ID, seq)
	if err != nil {
		return RecordRow{}, fmt.Errorf("runtime: read record %d of run %s: %w", seq, key.ID, err)
	}
	at := int(seq - entry.First)
	if seq < entry.First || at >= len(entry.Records) {
		return RecordRow{}, fmt.Errorf("runtime: run %s: record %d: %w", key.ID, seq, machine.ErrNoRecord)
	}
	return RecordRow{
		RunID: entry.RunID, Record: entry.Records[at], PrevSeq: seq - 1, PrevHash: entry.PrevHash, Hash: entry.Hash,
		Cursor: Cursor{Epoch: e.store.Epoch(), Position: entry.Cursor, Index: uint16(at)},
	}, nil
}
