package store

import (
	"fmt"

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

	// entry and place are the values that the committer completes with the
	// cursor, as indexes into ops; entry < 0 = writes without a journal entry.
	entry, place int
	// run is the head key whose seq must be prev and becomes last.
	run        []byte
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
	cursor         uint64
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
		ns: st.Namespace, prev: batch.Prev, last: st.Seq, prevHash: st.PrevHash, hash: hash,
		ops: make([]Op, 0, 8), keys: make([]byte, 0, 320),
	}
	head := codec.EncodeHead(st, hash)
	w.run = w.set(name(prefix(w.keys, kindHead, w.ns), st.RunID), head)
	w.entry = len(w.ops)
	w.set(number(runKey(w.keys, kindEntry, w.ns, st.RunID), batch.Prev+1), entry)
	w.place = len(w.ops)
	w.set(cursorKey(w.keys, w.ns, 0), codec.EncodePlace(st.RunID, batch.Prev+1))
	if crossed(batch.Prev, st.Seq, len(head)) {
		w.set(number(runKey(w.keys, kindSnapshot, w.ns, st.RunID), st.Seq), head)
	}
	w.consumed(batch)
	w.rows(batch)
	w.queues(batch)
	w.refers(st.RunID, entry)
	return w, nil
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
	for i := range batch.Writes {
		v := &batch.Writes[i]
		w.set(number(artifactPrefix(w.keys, w.ns, run, v.Name), v.Seq), codec.EncodeVersion(v))
	}
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
