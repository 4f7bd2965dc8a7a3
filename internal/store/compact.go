package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Compact brings a closed store into its smallest form: all tables in one level,
// without what was overwritten, and no value-log file that is half dead. The
// running store gets there by itself, later. Errors as of [Open].
func Compact(opts Options) error {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return fmt.Errorf("store options: %w", err)
	}
	s := &Store{opts: opts, log: &logger{log: opts.Logger}}
	if _, err := s.openDatabase(); err != nil {
		return openError(opts.Dir, err)
	}
	s.db.SetDiscardTs(s.db.MaxVersion())
	err := s.db.Flatten(1)
	for err == nil {
		err = s.db.RunValueLogGC(0.5)
	}
	if errors.Is(err, badger.ErrNoRewrite) {
		err = nil
	}
	if err := errors.Join(err, s.closeDatabase()); err != nil {
		return fmt.Errorf("compact store %s: %w", opts.Dir, err)
	}
	return nil
}
