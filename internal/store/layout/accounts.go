package layout

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// ReadAccount decodes an account's row.
func ReadAccount(key, value []byte) (machine.AccountRow, error) {
	ns, name, err := RunOf(key)
	if err != nil {
		return machine.AccountRow{}, err
	}
	row, err := codec.DecodeAccount(value)
	row.Namespace, row.Account = ns, name
	return row, err
}

// Accounts returns the rows of all accounts.
func Accounts(txn *Txn) ([]machine.AccountRow, error) {
	var rows []machine.AccountRow
	it := txn.Scan(kv.Range{Prefix: []byte{KindAccount}})
	defer it.Close()
	for it.Rewind(); Has(it, []byte{KindAccount}); it.Next() {
		value, err := CopyOf(it)
		if err != nil {
			return nil, err
		}
		row, err := ReadAccount(it.KeyCopy(), value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// charges adds the batch's changes to the rows of accounts. Many runs share such a row. Therefore the
// committer, which is the only writer, computes the new value.
func (w *Made) charges(batch *machine.Batch) {
	for _, c := range batch.Charged {
		key := w.set(AccountKey(w.keys, w.Ns, c.After.Account), nil)
		w.Ops[len(w.Ops)-1] = mergeAccount(key, func(row *machine.AccountRow) { row.Add(c) })
	}
}

// ReleaseAccounts returns the ops that settle the charges of a run that is being deleted, so that
// no account keeps a reservation for it.
func ReleaseAccounts(st *machine.State) []Op {
	if st.Imported {
		return nil
	}
	ops := make([]Op, 0, len(st.Charges))
	for _, c := range st.Charges {
		ops = append(ops, mergeAccount(AccountKey(nil, st.Namespace, c.Account), func(row *machine.AccountRow) { row.SettleDeleted(c) }))
	}
	return ops
}

func mergeAccount(key []byte, change func(*machine.AccountRow)) Op {
	return Op{Key: key, merge: func(stored []byte) ([]byte, error) {
		var row machine.AccountRow
		if stored != nil {
			var err error
			if row, err = codec.DecodeAccount(stored); err != nil {
				return nil, err
			}
		}
		change(&row)
		return codec.EncodeAccount(&row), nil
	}}
}

// Merges reports whether the op computes its value from the stored value, see [Op.Merge].
func (o *Op) Merges() bool { return o.merge != nil }

// Merge computes the value of a row that many batches change. lookup returns the value that the row has
// after the previous batch.
func (o *Op) Merge(lookup func(key []byte) ([]byte, error)) error {
	if o.merge == nil {
		return nil
	}
	stored, err := lookup(o.Key)
	if err == nil {
		o.Value, err = o.merge(stored)
	}
	return err
}

// ValueBytes returns the size of the value in bytes. If the value is not computed yet, it returns the
// maximum size.
func (o *Op) ValueBytes() int64 {
	if o.merge != nil {
		return codec.AccountBytes
	}
	return int64(len(o.Value))
}
