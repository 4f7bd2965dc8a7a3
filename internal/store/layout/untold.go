package layout

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// DropUntold returns the ops that delete the rows of a run's cancellations which no agent has
// received yet.
func DropUntold(txn *Txn, ns uint32, run string) (ops []Op, err error) {
	p := QueuePrefix(QueueID{Ns: ns, Kind: byte(machine.OutboxCancel)})
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); Has(it, p); it.Next() {
		row, err := ReadOutbox(it.Key())
		if err != nil {
			return nil, err
		}
		if row.RunID == run {
			ops = append(ops, Op{Key: it.KeyCopy(), Delete: true})
		}
	}
	return ops, nil
}
