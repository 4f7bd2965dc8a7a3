package store

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// Op is one key to set or delete.
type Op struct {
	Key, Value []byte
	Delete     bool
}

// expect is a precondition on one key: it has this value, or is absent if nil.
type expect struct {
	key, value []byte
	// such judges the value in place of value, nil = there is none.
	such func(value []byte) bool
	// miss is the error when it does not hold.
	miss error
}

// present takes any value.
func present(value []byte) bool { return value != nil }

// Writes is an encoded batch: what one commit sets, and on which conditions.
type Writes struct {
	ns  uint32
	ops []Op
	// keys is the arena that the ops' keys are parts of.
	keys []byte

	// entry is the value that the committer completes with the cursor, as an index
	// into ops; < 0 = writes without a journal entry.
	entry int
	// run is the head key of the run whose last seq must be prev and becomes last;
	// runID names it in the row of cursors.
	run        []byte
	runID      string
	prev, last uint64
	expects    []expect
	// unreferred is a prefix under which there must be no key; nil: not asked.
	unreferred []byte
	// dropped is the prefix whose rows go afterwards; nil: none do.
	dropped []byte
	// raise: the watermarks that scans have moved are stored as well.
	raise bool

	size           size
	prevHash, hash [32]byte
	// unlisted are the run's artifact versions that are in no row after this batch.
	unlisted []machine.ArtifactVersion
	cursor   uint64
}

// Ops are the keys and values, the cursor's still open (zero).
func (w *Writes) Ops() []Op { return w.ops }

// Bytes counts keys and values.
func (w *Writes) Bytes() int64 {
	var n int64
	for i := range w.ops {
		n += int64(len(w.ops[i].Key) + len(w.ops[i].Value))
	}
	return n
}

// headEvery is how many records may follow the head that is stored of a run, less one:
// opening a run takes their inputs once more.
const headEvery = 16

// headDue reports whether the head is stored with a batch: at the beginning, whenever a
// multiple of headEvery is passed, where the run ends or waits, and where any row
// changes by which a run is found without its head. So what is stored of a run always
// has the timers, the outgoing work, the turn to offer and the list entries that its
// rows say; what follows it are records, counts and artifacts alone. It is a function
// of the batch, so that a check knows which heads there must be.
func headDue(b *machine.Batch) bool {
	moved := len(b.TimersCleared) + len(b.TimersSet) + len(b.OutboxRemoved) + len(b.OutboxAdded) + len(b.Index)
	return b.Prev/headEvery != b.State.Seq/headEvery || b.Prev == 0 || moved > 0 || b.ReadyChanged ||
		b.State.Status != machine.Running || b.State.Turn == nil || firstWrites(b)
}

// firstWrites: an artifact was written for the first time. A stored head knows every
// artifact of the run, so that what follows says which was written, and it how.
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

// checkpointEvery is how many records stand between two checkpoints of a head
// of at most smallHead bytes; larger heads are copied more rarely. Reading a
// run's past replays at most that many records.
const (
	smallHead            = 16 << 10
	checkpointEvery      = 256
	checkpointEveryLarge = 1024
)

// Encode makes the bytes of a batch without storing anything. It runs in the
// caller's goroutine, so that the committer only checks, numbers and syncs.
// batch.State.PrevHash must be the hash of the run's last entry.
func (s *Store) Encode(batch *machine.Batch) (*Writes, error) {
	w, err := encode(batch)
	if err != nil {
		return nil, err
	}
	return w, s.checkSize(w)
}

func encode(batch *machine.Batch) (*Writes, error) {
	if err := checkBatch(batch); err != nil {
		return nil, err
	}
	st := batch.State
	entry, hash, err := codec.EncodeEntry(st.PrevHash, batch.Prev+1, &batch.Input, batch.Records)
	if err != nil {
		return nil, err
	}
	w := &Writes{
		ns: st.Namespace, runID: st.RunID, prev: batch.Prev, last: st.Seq, prevHash: st.PrevHash, hash: hash,
		ops: make([]Op, 0, 8), keys: make([]byte, 0, 320),
	}
	w.keys = appendHeadKey(w.keys, w.ns, st.RunID)
	w.run = slices.Clip(w.keys)
	w.set(number(runKey(w.keys, kindEntry, w.ns, st.RunID), batch.Prev+1), entry)
	due := headDue(batch)
	if due {
		w.head(batch, codec.EncodeHead(st, hash))
	}
	w.list(batch, due)
	w.consumed(batch)
	w.rows(batch)
	w.queues(batch)
	w.refers(st.RunID, entry)
	return w, nil
}

// head stores the run's state, and a copy of it now and then.
func (w *Writes) head(batch *machine.Batch, head []byte) {
	w.ops = append(w.ops, Op{Key: w.run, Value: head})
	if crossed(batch.Prev, w.last, len(head)) {
		w.set(number(runKey(w.keys, kindSnapshot, w.ns, w.runID), w.last), head)
	}
}

// list puts the artifact versions that no row has into rows, one per artifact, together
// with a head; without one they wait for the next.
func (w *Writes) list(batch *machine.Batch, due bool) {
	if batch.Prev > 0 {
		w.unlisted = batch.State.Unlisted
	}
	if len(batch.Writes) > 0 {
		w.unlisted = append(slices.Clip(w.unlisted), batch.Writes...)
	}
	if due {
		w.listAll()
	}
}

func (w *Writes) listAll() {
	for len(w.unlisted) > 0 {
		name := w.unlisted[0].Name
		var of, others []machine.ArtifactVersion
		for _, v := range w.unlisted {
			if v.Name == name {
				of = append(of, v)
			} else {
				others = append(others, v)
			}
		}
		key := number(artifactPrefix(w.keys, w.ns, w.runID, name), of[len(of)-1].Seq)
		w.set(key, codec.EncodeVersions(of))
		w.unlisted = others
	}
}

// set adds an op whose key was appended to w.keys, and returns the key.
func (w *Writes) set(keys, value []byte) []byte {
	key := keys[len(w.keys):len(keys):len(keys)]
	w.keys = keys
	w.ops = append(w.ops, Op{Key: key, Value: value})
	return key
}

func (w *Writes) remove(keys []byte) {
	w.set(keys, nil)
	w.ops[len(w.ops)-1].Delete = true
}

// crossed reports whether the batch passes a multiple of the interval.
func crossed(prev, last uint64, headBytes int) bool {
	every := uint64(checkpointEvery)
	if headBytes > smallHead {
		every = checkpointEveryLarge
	}
	return prev/every != last/every
}

func (w *Writes) consumed(batch *machine.Batch) {
	for i := range batch.Consumed {
		d := &batch.Consumed[i]
		key := w.set(dedupeKey(w.keys, w.ns, d), codec.EncodeDedupe(d))
		w.expects = append(w.expects, expect{key: key, miss: machine.ErrConsumed})
	}
}

// rows writes the index rows that belong to the run.
func (w *Writes) rows(batch *machine.Batch) {
	run := batch.State.RunID
	for i := range batch.Messages {
		m := &batch.Messages[i]
		w.set(number(messagePrefix(w.keys, w.ns, run, m.State), m.N), codec.EncodeNumber(m.Seq))
	}
	if batch.ReadyChanged {
		if key := runKey(w.keys, kindReady, w.ns, run); batch.Ready {
			w.set(key, codec.Mark)
		} else {
			w.remove(key)
		}
	}
	for i := range batch.Index {
		if !batch.Index[i].Add {
			w.remove(indexKey(w.keys, w.ns, run, &batch.Index[i]))
		}
	}
	for i := range batch.Index {
		if batch.Index[i].Add {
			w.set(indexKey(w.keys, w.ns, run, &batch.Index[i]), codec.Mark)
		}
	}
}

// queues writes timers and outbox rows: first what goes, then what comes, so
// that a row in both lists stays.
func (w *Writes) queues(batch *machine.Batch) {
	for i := range batch.TimersCleared {
		w.remove(timerKey(w.keys, w.ns, &batch.TimersCleared[i]))
	}
	for i := range batch.TimersSet {
		t := &batch.TimersSet[i]
		w.set(timerKey(w.keys, w.ns, t), codec.EncodeNumber(t.Turn))
	}
	for i := range batch.OutboxRemoved {
		w.remove(outboxKey(w.keys, w.ns, &batch.OutboxRemoved[i]))
	}
	for i := range batch.OutboxAdded {
		r := &batch.OutboxAdded[i]
		w.set(outboxKey(w.keys, w.ns, r), codec.Mark)
	}
}

// checkBatch refuses a batch that breaks its own contract before anything of it
// is written: a bug in the caller, never an answer to a client.
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
