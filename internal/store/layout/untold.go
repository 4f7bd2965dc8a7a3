package layout

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// DropUntold deletes the rows of a run's cancellations that agents were not told of yet.
func DropUntold(txn *Txn, ns uint32, run string) (ops []Op, err error) {
	p := QueuePrefix(QueueID{Ns: ns, Kind: byte(machine.OutboxCancel)})
	it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
	defer it.Close()
	for it.Rewind(); Has(it, p); it.Next() {
		row, err := ReadOutbox(it.Item().Key())
		if err != nil {
			return nil, err
		}
		if row.RunID == run {
			ops = append(ops, Op{Key: it.Item().KeyCopy(nil), Delete: true})
		}
	}
	return ops, nil
}
