package layout

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// Op is one key to set or delete.
type Op struct {
	Key, Value []byte
	Delete     bool
	// merge computes the value from the stored value. The stored value is nil if the key does not
	// exist. If merge is nil, the op stores Value.
	merge func(stored []byte) ([]byte, error)
}

// Made contains all rows that follow from one entry: the row of the entry itself, and all other rows.
type Made struct {
	Ns  uint32
	Ops []Op
	// keys is the memory that contains the keys of the ops.
	keys []byte
	// Entry is the index in Ops of the entry's own row.
	Entry int
	// Run is the key of the run's head row. The seq in that row must be Prev, and the write changes it
	// to Last.
	Run        []byte
	RunID      string
	Prev, Last uint64
	// Fresh are the keys of idempotency ids that must be unused.
	Fresh [][]byte
	// Untaken are the keys of business keys that no run may hold yet.
	Untaken        [][]byte
	PrevHash, Hash [32]byte
	// Unlisted are artifact versions of the run that no row contains yet, even after the entry.
	Unlisted []machine.ArtifactVersion
}

// ListedRows returns the rows for artifact versions that no row contains yet.
func ListedRows(ns uint32, run string, versions []machine.ArtifactVersion) []Op {
	w := &Made{Ns: ns, RunID: run, Unlisted: versions}
	w.listAll()
	return w.Ops
}

// HeadEvery limits the number of records after a stored head: there are always fewer. When a run is
// opened, the inputs of these records are replayed.
const HeadEvery = 16

// headDue reports whether a head is stored with the batch. A head is stored at the beginning of a run,
// whenever the seq passes a multiple of HeadEvery, when the run ends or waits, and whenever a row
// changes by which a run is found without its head. Therefore a stored head always agrees with the
// run's timers, outgoing work, ready turn and index rows. The entries after it add only records, counts
// and artifacts. The result depends only on the batch, so a check can compute which heads must exist.
func headDue(b *machine.Batch) bool {
	moved := len(b.TimersCleared) + len(b.TimersSet) + len(b.OutboxRemoved) + len(b.OutboxAdded) + len(b.Index)
	return b.Prev/HeadEvery != b.State.Seq/HeadEvery || b.Prev == 0 || moved+len(b.Charged) > 0 || b.ReadyChanged ||
		b.State.Status != machine.Running || b.State.Turn == nil || firstWrites(b)
}

// firstWrites reports whether the batch writes an artifact for the first time. In this case a head is
// stored. So a stored head contains every artifact of the run and the mode of each later write.
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

// CheckpointEvery is the number of records between two checkpoints if the head has at most smallHead
// bytes. For larger heads it is checkpointEveryLarge. To read a past state of a run, at most that many
// records are replayed.
const (
	smallHead            = 16 << 10
	CheckpointEvery      = 256
	checkpointEveryLarge = 1024
)

// Encode returns the rows of a batch. If key is not nil, the rows that contain values are sealed with
// it. The rows include the head only if it is due, see headDue. batch.State.PrevHash must be the hash
// of the run's last entry.
func Encode(batch *machine.Batch, key *seal.Key) (*Made, error) {
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
	w := &Made{
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
	w.refers(st.RunID, plain)
	return w, nil
}

// encodeEntry returns the value of a batch's entry and the hash of the chain after it. plain is the
// value before it was sealed.
func encodeEntry(batch *machine.Batch, key *seal.Key) (entry, plain []byte, hash [32]byte, err error) {
	prev, first := batch.State.PrevHash, batch.Prev+1
	if key != nil {
		return codec.SealEntry(key, prev, first, &batch.Input, batch.Records)
	}
	entry, hash, err = codec.EncodeEntry(prev, first, &batch.Input, batch.Records)
	return entry, entry, hash, err
}

// EncodeHead returns the value of a run's head. If key is not nil, the value is sealed with it.
func EncodeHead(st *machine.State, hash [32]byte, key *seal.Key) []byte {
	value := codec.EncodeHead(st, hash)
	if key == nil {
		return value
	}
	return codec.SealHead(key, value, st, hash)
}

// head adds the row of the run's head, and at intervals a checkpoint with the same value.
func (w *Made) head(batch *machine.Batch, head []byte) {
	w.Ops = append(w.Ops, Op{Key: w.Run, Value: head})
	if crossed(batch.Prev, w.Last, len(head)) {
		w.set(Number(RunKey(w.keys, KindSnapshot, w.Ns, w.RunID), w.Last), head)
	}
}

// list adds rows for the artifact versions that no row contains yet, one row for each artifact. It does
// so only if a head is stored with this batch. Otherwise the versions are added with the next head.
func (w *Made) list(batch *machine.Batch, due bool) {
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

func (w *Made) listAll() {
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

// set adds an op. keys is w.keys with the op's key appended. set returns the new value of w.keys.
func (w *Made) set(keys, value []byte) []byte {
	key := keys[len(w.keys):len(keys):len(keys)]
	w.keys = keys
	w.Ops = append(w.Ops, Op{Key: key, Value: value})
	return key
}

func (w *Made) remove(keys []byte) {
	w.set(keys, nil)
	w.Ops[len(w.Ops)-1].Delete = true
}

// crossed reports whether the batch passes a multiple of the checkpoint interval.
func crossed(prev, last uint64, headBytes int) bool {
	every := uint64(CheckpointEvery)
	if headBytes > smallHead {
		every = checkpointEveryLarge
	}
	return prev/every != last/every
}

func (w *Made) consumed(batch *machine.Batch, key *seal.Key) {
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

// effects adds the rows of business keys.
func (w *Made) effects(batch *machine.Batch) {
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

// rows adds the index rows of the run.
func (w *Made) rows(batch *machine.Batch) {
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
func (w *Made) queues(batch *machine.Batch) {
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

// checkBatch returns an error for an inconsistent batch before any row is written. Such an error
// is a fault of the caller in this process and is not meant for clients.
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
