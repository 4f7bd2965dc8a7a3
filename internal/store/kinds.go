package store

import (
	"encoding/binary"
	"fmt"
)

// keyKind is what the store has to know of one kind of key. A kind that is not in
// [kinds] is in no store: a test reads the constants of keys.go.
type keyKind struct {
	// row names it in faults; "" = check has nothing to say about it.
	row string
	// guarded: a precondition may ask for keys of this kind. The committer then keeps
	// what it set under them until that is visible to who looks into the store.
	guarded bool
	// queue finds queue and due time of a key, for the watermarks; nil = no queue.
	queue func(key []byte) (queueID, int64)
}

// kinds has each kind of key. Those without a guard are written by one path whose
// precondition is the head's seq or a row of another kind, or by nobody else.
var kinds = [256]keyKind{
	kindFormat:    {},
	kindWatermark: {row: "watermark"},

	kindHead:     {row: "head"}, // guarded by its seq: checkSeq
	kindEntry:    {row: "entry"},
	kindSnapshot: {row: "checkpoint"},
	kindArtifact: {row: "artifact"},
	kindMessage:  {row: "message"},
	kindReady:    {row: "ready"},
	kindIndex:    {row: "index"},
	kindCursor:   {row: "cursor"},
	kindTimer:    {row: "timer", queue: timerDue},
	kindOutbox:   {row: "outbox", guarded: true, queue: outboxDue},

	kindRunID:    {row: "id", guarded: true},
	kindCallerID: {row: "id", guarded: true},

	kindPack:     {row: "pack"},
	kindPackName: {row: "pack name", guarded: true},
	kindPackRef:  {row: "pack digest", guarded: true},
	kindPackBare: {row: "pack default", guarded: true},

	kindBlob:      {row: "blob", guarded: true},
	kindBlobPiece: {row: "piece of a blob"},
	kindBlobRef:   {row: "reference to a blob", guarded: true},
	kindUpload:    {row: "upload", guarded: true},
	kindImport:    {row: "import"},

	kindNamespace: {row: "namespace", guarded: true},

	kindSubscription: {row: "subscription", guarded: true},
	kindDeadLetter:   {row: "dead letter"},
	kindDrop:         {row: "removal", guarded: true},
}

// guard refuses a precondition on a key that nobody keeps: it would be judged by
// what was stored before the group in flight.
func guard(key []byte) error {
	if !kinds[key[0]].guarded {
		return fmt.Errorf("precondition on a key of kind %q, which is not guarded", key[0])
	}
	return nil
}

// timerDue and outboxDue read keys that this process made.
func timerDue(key []byte) (queueID, int64) {
	return queueID{kind: timerQueue, ns: binary.BigEndian.Uint32(key[1:])}, dueAt(key[5:])
}

func outboxDue(key []byte) (queueID, int64) {
	return queueID{kind: key[5], ns: binary.BigEndian.Uint32(key[1:])}, dueAt(key[6:])
}

// dueAt is the inverse of instant.
func dueAt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }
