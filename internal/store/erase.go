package store

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// EraseRun erases the values of a run that has ended and waits until the erasure is synced; see
// [erasure.Eraser.Run].
func (s *Store) EraseRun(ctx context.Context, ns uint32, run string, asked machine.Erased) (st *machine.State, duplicate bool, err error) {
	end, duplicate, err := s.eraser.Run(ctx, ns, run, asked)
	return end.State(), duplicate, err
}

// writeErasure stores rows of an erasure. It stores them even if the disk is nearly full, because a
// deletion, which frees space, begins with an erasure. If absent is not nil, this key must not exist.
func (s *Store) writeErasure(ctx context.Context, ns uint32, ops []layout.Op, absent []byte) error {
	w := &Writes{ns: ns, entry: -1, reclaimsSpace: true, ops: ops}
	if absent != nil {
		w.expects = []expect{{key: absent, err: erasure.ErrInProgress}}
	}
	return s.write(ctx, w)
}

// wireErasure connects the parts that handle the keys of erasable runs.
func (s *Store) wireErasure() {
	keys := s.engine.Keys()
	s.eraser = &erasure.Eraser{View: s.view, Write: s.writeErasure, Keys: keys}
	s.runKeys = &erasure.RunKeys{Ring: keys, CheckSpace: func(bytes int64) error { return s.engine.CheckSpace(bytes, false) }, Write: s.put}
}
