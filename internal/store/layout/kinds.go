package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/codec"
)

// keyKind is what the store has to know of one kind of key. A kind that is not in
// [kinds] is in no store: a test reads the constants of keys.go.
type keyKind struct {
	// Row is the name of the kind in faults; "" = check has no faults about it.
	Row string
	// Guarded: a precondition may read keys of this kind. The committer then keeps the values
	// that it set under them until readers of the store can see them.
	Guarded bool
	// Large: a value may be so large that it lies in a value log.
	Large bool
	// Hot: rows of the kind are rewritten, or come and go. An engine may keep them apart.
	Hot bool
	// Queue finds queue and due time of a key, for the watermarks; nil = no queue.
	Queue func(key []byte) (QueueID, int64)
}

// Kinds has each kind of key. A kind without a guard has only one writing path, whose
// precondition, if any, is the head's seq or a row of another kind.
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

// RemovesLargeValue reports whether a value is removed that may be large. The reclaimer counts
// those.
func (o *Op) RemovesLargeValue() bool { return o.Delete && Kinds[o.Key[0]].Large }

// Guard refuses a precondition on a key whose values the committer does not keep, because the
// check would miss the group in flight.
func Guard(key []byte) error {
	if !Kinds[key[0]].Guarded {
		return fmt.Errorf("precondition on a key of kind %q, which is not guarded", key[0])
	}
	return nil
}

// timerDue and outboxDue read keys that this process made.
func timerDue(key []byte) (QueueID, int64) {
	return QueueID{Kind: TimerQueue, Ns: binary.BigEndian.Uint32(key[1:])}, DueAt(key[5:])
}

func outboxDue(key []byte) (QueueID, int64) {
	return QueueID{Kind: key[5], Ns: binary.BigEndian.Uint32(key[1:])}, DueAt(key[6:])
}

// DueAt is the inverse of instant.
func DueAt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }

// TimerQueue names the timers among the queues; the outbox kinds are the others.
const TimerQueue = 0

// QueueID names a queue: the timers, or outgoing work of a kind, of a namespace.
type QueueID struct {
	Kind byte
	Ns   uint32
}

// MarkOp stores a queue's watermark: no row of it is due before.
func MarkOp(q QueueID, at int64) *Op {
	key := append(Prefix(make([]byte, 0, 8), KindWatermark, q.Ns), q.Kind)
	return &Op{Key: key, Value: codec.EncodeNumber(uint64(at))}
}

// QueuePrefix begins the keys of a queue's rows, followed by the due time.
func QueuePrefix(q QueueID) []byte {
	if q.Kind == TimerQueue {
		return Prefix(make([]byte, 0, 16), KindTimer, q.Ns)
	}
	return append(Prefix(make([]byte, 0, 16), KindOutbox, q.Ns), q.Kind)
}
