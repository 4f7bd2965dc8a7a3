package badgerkv

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

type batch struct {
	db  *DB
	txn *badger.Txn
	// err is the first error that Badger returned for a pair.
	err error
}

func (b *batch) Set(key, value []byte) { b.took(b.txn.Set(key, value)) }

func (b *batch) Delete(key []byte) { b.took(b.txn.Delete(key)) }

func (b *batch) took(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Commit reports an unknown outcome for every error of Badger, including an error that Badger only
// logged.
func (b *batch) Commit(group uint64, done func(kv.Result)) {
	if b.err != nil {
		b.txn.Discard()
		done(kv.Result{Outcome: kv.NotStored, Err: b.err})
		return
	}
	err := b.txn.CommitAt(group, func(err error) { done(b.db.outcome(err)) })
	if err != nil {
		done(kv.Result{Err: err})
	}
}

func (d *DB) outcome(err error) kv.Result {
	if err == nil {
		err = d.log.Failure()
	}
	if err != nil {
		return kv.Result{Err: err}
	}
	return kv.Result{Outcome: kv.Stored}
}
