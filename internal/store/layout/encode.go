package layout

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// Op sets the value of one key, or deletes the key.
type Op struct {
	Key, Value []byte
	Delete     bool
	// merge computes the value from the stored value, which is nil if the key does not exist. If merge
	// is nil, the op stores Value.
	merge func(stored []byte) ([]byte, error)
}

// EntryRows contains all rows that follow from one journal entry: the row of the entry itself, and all other
// rows.
type EntryRows struct {
	Ns  uint32
	Ops []Op
	// keys is one buffer for the keys of all ops, so that each key needs no allocation of its own.
	keys []byte
	// Entry is the index in Ops of the entry's own row.
	Entry int
	// Run is the key of the run's head (stored current state). Before the write the run's last record
	// must be Prev. Afterwards it is Last.
	Run        []byte
	RunID      string
	Prev, Last uint64
	// Fresh are the keys of the request ids that the entry uses. None of them may exist before the
	// write.
	Fresh [][]byte
	// Untaken are the keys of business-key rows that may not exist before the write, because then
	// another step holds the business key.
	Untaken        [][]byte
	PrevHash, Hash [32]byte
	// Unlisted are artifact versions of the run that still have no artifact row after this entry. A
	// later entry adds the rows.
	Unlisted []machine.ArtifactVersion
}

// ListedRows returns the ops that store artifact rows for the given versions, which no row contains
// yet.
func ListedRows(ns uint32, run string, versions []machine.ArtifactVersion) []Op {
	w := &EntryRows{Ns: ns, RunID: run, Unlisted: versions}
	w.listAll()
	return w.Ops
}

// HeadEvery limits how old a run's stored head (its current state) may be. Fewer than HeadEvery records
// follow the head, and a read of the run replays their inputs.
const HeadEvery = 16

// headDue reports whether the run's head (current state) is stored with the batch. This is the case at the
// beginning of a run, whenever the seq passes a multiple of HeadEvery, when the run ends or waits, when the run
// is charged, when it writes an artifact for the first time, and whenever a row changes by which a run is found
// without its head.
//
// So a stored head always agrees with the run's timers, outgoing work, ready turn and index rows. The
// entries after it add only records, counts and artifacts. The result depends only on the batch, so a
// check can compute which heads must exist.
func headDue(b *machine.Batch) bool {
	moved := len(b.TimersCleared) + len(b.TimersSet) + len(b.OutboxRemoved) + len(b.OutboxAdded) + len(b.Index)
	return b.Prev/HeadEvery != b.State.Seq/HeadEvery || b.Prev == 0 || moved+len(b.Charged) > 0 || b.ReadyChanged ||
		b.State.Status != machine.Running || b.State.Turn == nil || firstWrites(b)
}

// firstWrites reports whether the batch writes an artifact of the run for the first time. Then the
// run's head (current state) is stored with the batch, so that a stored head names every artifact and
// its mode.
func firstWrites(b *machine.Batch) bool {
	for i := range b.State.Artifacts {
		if head := &b.State.Artifacts[i]; head.Seq > b.Prev {
			now := 0
			for j := range b.Writes {
				if b.Writes[j].Name == head.Name {
					now++
				}
			}
			if head.Writes <= now {
				return true
			}
		}
	}
	return false
}

// CheckpointEvery is the number of records between two checkpoints of a run if its state has at most
// smallHead bytes. For larger states it is checkpointEveryLarge. A read of a past state replays at most
// this many records.
const (
	smallHead            = 16 << 10
	CheckpointEvery      = 256
	checkpointEveryLarge = 1024
)

// Encode returns the rows of a batch. If key is not nil, the rows that contain values are encrypted
// with it. The rows include the head (current state) of the run only if headDue returns true.
// batch.State.PrevHash must be the hash of the run's last entry.
func Encode(batch *machine.Batch, key *seal.Key) (*EntryRows, error) {
	if err := checkBatch(batch); err != nil {
		return nil, err
	}
	st := batch.State
	if st.Erasable != (key != nil) {
		return nil, fmt.Errorf("encode batch: a key is given %v, the run can be erased %v", key != nil, st.Erasable)
	}
	entry, plain, hash, err := encodeEntry(batch, key)
	if err != nil {
		return nil, err
	}
	w := &EntryRows{
		Ns: st.Namespace, RunID: st.RunID, Prev: batch.Prev, Last: st.Seq, PrevHash: st.PrevHash, Hash: hash,
		Ops: make([]Op, 0, 8), keys: make([]byte, 0, 320),
	}
	w.keys = appendHeadKey(w.keys, w.Ns, st.RunID)
	w.Run = slices.Clip(w.keys)
	w.set(Number(RunKey(w.keys, KindEntry, w.Ns, st.RunID), batch.Prev+1), entry)
	due := headDue(batch)
	if due {
		w.head(batch, EncodeHead(st, hash, key))
	}
	w.list(batch, due)
	w.consumed(batch, key)
	w.effects(batch)
	w.rows(batch)
	w.queues(batch)
	w.charges(batch)
	w.addBlobRows(st.RunID, plain)
	return w, nil
}

// encodeEntry returns the value of a batch's journal entry and the hash of the run's chain after it.
// plain is the value before the encryption.
func encodeEntry(batch *machine.Batch, key *seal.Key) (entry, plain []byte, hash [32]byte, err error) {
	prev, first := batch.State.PrevHash, batch.Prev+1
	if key != nil {
		return codec.SealEntry(key, prev, first, &batch.Input, batch.Records)
	}
	entry, hash, err = codec.EncodeEntry(prev, first, &batch.Input, batch.Records)
	return entry, entry, hash, err
}

// EncodeHead returns the value of a run's head (current state). If key is not nil, the value is
// encrypted with it.
func EncodeHead(st *machine.State, hash [32]byte, key *seal.Key) []byte {
	value := codec.EncodeHead(st, hash)
	if key == nil {
		return value
	}
	return codec.SealHead(key, value, st, hash)
}

// head adds the row of the run's head (current state), and at intervals a checkpoint with the same
// value.
func (w *EntryRows) head(batch *machine.Batch, head []byte) {
	w.Ops = append(w.Ops, Op{Key: w.Run, Value: head})
	if isCheckpointDue(batch.Prev, w.Last, len(head)) {
		w.set(Number(RunKey(w.keys, KindSnapshot, w.Ns, w.RunID), w.Last), head)
	}
}

// list adds artifact rows for all artifact versions that no row contains yet, one row for each
// artifact. It does so only if the run's state is stored with this batch (due). Otherwise a later batch
// adds the rows.
func (w *EntryRows) list(batch *machine.Batch, due bool) {
	if batch.Prev > 0 {
		w.Unlisted = batch.State.Unlisted
	}
	if len(batch.Writes) > 0 {
		w.Unlisted = append(slices.Clip(w.Unlisted), batch.Writes...)
	}
	if due {
		w.listAll()
	}
}

// listAll writes one artifact row for each artifact in Unlisted, with its versions, until Unlisted is empty.
func (w *EntryRows) listAll() {
	for len(w.Unlisted) > 0 {
		name := w.Unlisted[0].Name
		var of, others []machine.ArtifactVersion
		for _, v := range w.Unlisted {
			if v.Name == name {
				of = append(of, v)
			} else {
				others = append(others, v)
			}
		}
		key := Number(ArtifactPrefix(w.keys, w.Ns, w.RunID, name), of[len(of)-1].Seq)
		w.set(key, codec.EncodeVersions(of))
		w.Unlisted = others
	}
}

// set adds an op that stores value. keys is the buffer w.keys with the op's key appended. set returns
// the key.
func (w *EntryRows) set(keys, value []byte) []byte {
	key := keys[len(w.keys):len(keys):len(keys)]
	w.keys = keys
	w.Ops = append(w.Ops, Op{Key: key, Value: value})
	return key
}

func (w *EntryRows) remove(keys []byte) {
	w.set(keys, nil)
	w.Ops[len(w.Ops)-1].Delete = true
}

// isCheckpointDue reports whether a new checkpoint is due, because the batch passes a multiple of the
// checkpoint interval. prev and last are the seqs before and after the batch.
func isCheckpointDue(prev, last uint64, headBytes int) bool {
	every := uint64(CheckpointEvery)
	if headBytes > smallHead {
		every = checkpointEveryLarge
	}
	return prev/every != last/every
}

func (w *EntryRows) consumed(batch *machine.Batch, key *seal.Key) {
	for i := range batch.Consumed {
		d := &batch.Consumed[i]
		var value []byte
		if key == nil {
			value = codec.EncodeDedupe(d)
		} else {
			value = codec.SealDedupe(key, d)
		}
		w.Fresh = append(w.Fresh, w.set(DedupeKey(w.keys, w.Ns, d), value))
	}
}

// effects adds the rows of the business keys that the batch takes, changes or frees.
func (w *EntryRows) effects(batch *machine.Batch) {
	for i := range batch.Effects {
		e := &batch.Effects[i]
		key := EffectKey(w.keys, w.Ns, e.Key)
		if e.Op == machine.EffectFreed {
			w.remove(key)
			continue
		}
		key = w.set(key, codec.EncodeEffect(&e.Effect))
		if e.Op == machine.EffectTaken {
			w.Untaken = append(w.Untaken, key)
		}
	}
}

// rows adds the rows of messages, the ready index and the list indexes.
func (w *EntryRows) rows(batch *machine.Batch) {
	run := batch.State.RunID
	for i := range batch.Messages {
		m := &batch.Messages[i]
		w.set(Number(MessagePrefix(w.keys, w.Ns, run, m.State), m.N), codec.EncodeNumber(m.Seq))
	}
	if batch.ReadyChanged {
		if key := RunKey(w.keys, KindReady, w.Ns, run); batch.Ready {
			w.set(key, codec.Mark)
		} else {
			w.remove(key)
		}
	}
	for i := range batch.Index {
		if !batch.Index[i].Add {
			w.remove(IndexKey(w.keys, w.Ns, run, &batch.Index[i]))
		}
	}
	for i := range batch.Index {
		if batch.Index[i].Add {
			w.set(IndexKey(w.keys, w.Ns, run, &batch.Index[i]), codec.Mark)
		}
	}
}

// queues adds the ops for timers and outbox rows. Removals come first, so that a row that is both
// removed and added exists afterwards.
func (w *EntryRows) queues(batch *machine.Batch) {
	for i := range batch.TimersCleared {
		w.remove(TimerKey(w.keys, w.Ns, &batch.TimersCleared[i]))
	}
	for i := range batch.TimersSet {
		t := &batch.TimersSet[i]
		w.set(TimerKey(w.keys, w.Ns, t), codec.EncodeNumber(t.Turn))
	}
	for i := range batch.OutboxRemoved {
		w.remove(OutboxKey(w.keys, w.Ns, &batch.OutboxRemoved[i]))
	}
	for i := range batch.OutboxAdded {
		r := &batch.OutboxAdded[i]
		w.set(OutboxKey(w.keys, w.Ns, r), codec.Mark)
	}
}

// checkBatch returns an error for an inconsistent batch, before any row is written. This error is a
// fault in this program, and clients never cause it.
func checkBatch(b *machine.Batch) error {
	if b.State == nil || len(b.Records) == 0 {
		return fmt.Errorf("batch without state or records")
	}
	if last := b.Prev + uint64(len(b.Records)); b.State.Seq != last {
		return fmt.Errorf("batch of run %s: state has seq %d, records end at %d", b.State.RunID, b.State.Seq, last)
	}
	if b.State.RunID == "" {
		return fmt.Errorf("batch without run id")
	}
	return nil
}

// ListedVersions returns those versions of an artifact with after < seq <= atSeq that artifact rows contain. If
// newestOnly is set, it ignores after and may leave out all but the newest ones. A row's key contains the seq
// of the row's last version.
func ListedVersions(txn *Txn, ns uint32, run, artifact string, after, atSeq uint64, newestOnly bool) (out []machine.ArtifactVersion, err error) {
	p := ArtifactPrefix(nil, ns, run, artifact)
	if newestOnly {
		if after, err = rowBefore(txn, p, atSeq); err != nil {
			return nil, err
		}
	}
	it := txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Seek(Number(bytes.Clone(p), after+1)); AtPrefix(it, p); it.Next() {
		var versions []machine.ArtifactVersion
		err := ValueOf(it, func(v []byte) error {
			versions, err = codec.DecodeVersions(artifact, v)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			if v.Seq > atSeq {
				return out, nil
			}
			if v.Seq > after {
				out = append(out, v)
			}
		}
	}
	return out, nil
}

// rowBefore finds where a search for the newest version up to seq must begin. Each artifact row holds several versions,
// and its key contains the seq of the last of them. rowBefore returns the seq just before the last version of the last
// row that ends at or before seq, or 0 if there is none. The searched version is in this row
// or in the next one.
func rowBefore(txn *Txn, p []byte, seq uint64) (uint64, error) {
	it := txn.Scan(kv.Range{Prefix: p, Reverse: true, KeysOnly: true})
	defer it.Close()
	it.Seek(Number(bytes.Clone(p), seq))
	if !AtPrefix(it, p) {
		return 0, nil
	}
	last, err := LastNumber(it.Key(), p)
	return last - 1, err
}

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
	for it.Rewind(); AtPrefix(it, []byte{KindAccount}); it.Next() {
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

// charges adds ops that change the rows of accounts by the batch's charges. Many runs share the row of
// an account, so the committer, which is the only writer, computes the row's new value.
func (w *EntryRows) charges(batch *machine.Batch) {
	for _, c := range batch.Charged {
		key := w.set(AccountKey(w.keys, w.Ns, c.After.Account), nil)
		w.Ops[len(w.Ops)-1] = mergeAccount(key, func(row *machine.AccountRow) { row.Add(c) })
	}
}

// ReleaseAccounts returns the ops that settle the charges of a run that is being deleted. Afterwards no account
// keeps a reservation for the run. An imported run has no charges in this store.
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

// IsMerge reports whether the op computes its value from the stored value, see [Op.Merge].
func (o *Op) IsMerge() bool { return o.merge != nil }

// Merge computes the value of a row that many batches change. lookup returns the value that the row has
// after all earlier batches.
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

// DropUntold returns the ops that delete the run's outbox rows of the kind OutboxCancel. They are
// cancellations that no agent has confirmed yet.
func DropUntold(txn *Txn, ns uint32, run string) (ops []Op, err error) {
	p := QueuePrefix(QueueID{Ns: ns, Kind: byte(machine.OutboxCancel)})
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); AtPrefix(it, p); it.Next() {
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
