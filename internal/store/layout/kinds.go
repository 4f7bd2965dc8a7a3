package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/codec"
)

// keyKind describes one kind of key. If a kind is not in [Kinds], it does not occur in any store. A
// test compares Kinds with the constants in keys.go.
type keyKind struct {
	// Row is the name of the kind in faults. It is "" if the check does not report faults about this
	// kind.
	Row string
	// Guarded means that a precondition may read keys of this kind. For such keys the committer keeps
	// the values that it has set, until readers of the store can see them.
	Guarded bool
	// Large means that a value may be large enough to be stored in a value log.
	Large bool
	// Hot means that rows of this kind are often rewritten, or often added and removed. An engine may
	// store them separately.
	Hot bool
	// Queue returns the queue and the due time of a key. It is used for watermarks. It is nil if the
	// kind does not belong to a queue.
	Queue func(key []byte) (QueueID, int64)
}

// Kinds describes every kind of key. A kind that is not guarded is written in only one way. If it has a
// precondition, this is the seq of the head or a row of another kind.
var Kinds = [256]keyKind{
	KindFormat:    {Hot: true},
	KindWatermark: {Hot: true, Row: "watermark"},

	KindHead:     {Hot: true, Row: "head", Large: true}, // guarded by its seq: checkSeq
	KindEntry:    {Row: "entry", Large: true},
	KindSnapshot: {Row: "checkpoint", Large: true},
	KindArtifact: {Row: "artifact", Large: true},
	KindMessage:  {Row: "message", Large: true},
	KindReady:    {Hot: true, Row: "ready"},
	KindIndex:    {Row: "index"},
	KindCursor:   {Row: "cursor"},
	KindTimer:    {Hot: true, Row: "timer", Queue: timerDue},
	KindOutbox:   {Hot: true, Row: "outbox", Guarded: true, Queue: outboxDue},

	KindRunID:    {Row: "id", Guarded: true},
	KindCallerID: {Row: "id", Guarded: true},

	KindPack:     {Row: "pack", Large: true},
	KindPackName: {Row: "pack name", Guarded: true},
	KindPackRef:  {Row: "pack digest", Guarded: true},
	KindPackBare: {Row: "pack default", Guarded: true},

	KindBlob:      {Row: "blob", Guarded: true},
	KindBlobPiece: {Row: "piece of a blob", Large: true},
	KindBlobRef:   {Row: "reference to a blob", Guarded: true},
	KindUpload:    {Hot: true, Row: "upload", Guarded: true},
	KindImport:    {Hot: true, Row: "import"},

	KindNamespace: {Row: "namespace", Guarded: true},

	KindSubscription: {Hot: true, Row: "subscription", Guarded: true},
	KindDeadLetter:   {Row: "dead letter", Large: true},
	KindDrop:         {Hot: true, Row: "removal", Guarded: true},
	KindDeleted:      {Row: "deleted run", Guarded: true},
	KindErased:       {Row: "erased run", Guarded: true},

	KindEffect:  {Row: "business key", Guarded: true},
	KindAccount: {Hot: true, Row: "account", Guarded: true},

	KindBackup: {Row: "mark of a backup"},

	KindSchedule: {Hot: true, Row: "schedule"},
}

// RemovesLargeValue reports whether the op removes a value that may be large.
func (o *Op) RemovesLargeValue() bool { return o.Delete && Kinds[o.Key[0]].Large }

// Guard returns an error for a precondition on a key whose values the committer does not keep, because
// such a check would not see the group in flight.
func Guard(key []byte) error {
	if !Kinds[key[0]].Guarded {
		return fmt.Errorf("precondition on a key of kind %q, which is not guarded", key[0])
	}
	return nil
}

// timerDue and outboxDue decode keys that this process created, so they do not check the length.
func timerDue(key []byte) (QueueID, int64) {
	return QueueID{Kind: TimerQueue, Ns: binary.BigEndian.Uint32(key[1:])}, DueAt(key[5:])
}

func outboxDue(key []byte) (QueueID, int64) {
	return QueueID{Kind: key[5], Ns: binary.BigEndian.Uint32(key[1:])}, DueAt(key[6:])
}

// DueAt is the inverse of [Instant].
func DueAt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }

// TimerQueue is the Kind of the queue of timers. The Kind of any other queue is an outbox kind.
const TimerQueue = 0

// QueueID identifies a queue of a namespace: the timers, or the outgoing work of one kind.
type QueueID struct {
	Kind byte
	Ns   uint32
}

// MarkOp returns the op that stores a queue's watermark. The watermark means that no row of the queue
// is due before the time at.
func MarkOp(q QueueID, at int64) *Op {
	key := append(Prefix(make([]byte, 0, 8), KindWatermark, q.Ns), q.Kind)
	return &Op{Key: key, Value: codec.EncodeNumber(uint64(at))}
}

// QueuePrefix returns the beginning of the keys of a queue's rows. The due time follows it.
func QueuePrefix(q QueueID) []byte {
	if q.Kind == TimerQueue {
		return Prefix(make([]byte, 0, 16), KindTimer, q.Ns)
	}
	return append(Prefix(make([]byte, 0, 16), KindOutbox, q.Ns), q.Kind)
}
