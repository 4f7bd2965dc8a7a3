package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// These constants are the kinds of keys, with the form of the keys and the contents of their values. The
// first byte of every key is its kind. For all kinds except KindFormat and KindPack, the next four bytes
// are the namespace. Numbers are big-endian, so that keys sort in the order of the numbers.
const (
	KindFormat    = 'F' // F                          storage format and id of the store
	KindPack      = 'p' // p <digest>                 pack bytes
	KindPackName  = 'n' // n <id> <version>           digest of the pack with this name
	KindPackRef   = 'q' // q <digest>                 name of the pack with this digest
	KindPackBare  = 'f' // f <id>                     pack version that the id without a version means
	KindHead      = 'h' // h <run>                    current state of the run, see headDue
	KindEntry     = 'j' // j <run> <first seq>        journal entry
	KindSnapshot  = 'k' // k <run> <seq>              checkpoint
	KindArtifact  = 'a' // a <run> <name> <seq>       artifact versions up to seq
	KindMessage   = 'm' // m <run> <state> <n>        conversation row
	KindRunID     = 'd' // d <run> <kind> <id>        idempotency in a run
	KindCallerID  = 's' // s <principal> <kind> <id>  idempotency of a principal
	KindTimer     = 't' // t <due> <run> <kind> <step>
	KindOutbox    = 'o' // o <kind> <due> <run> <step> <attempt>  outgoing work; the worker that holds the step
	KindReady     = 'r' // r <run>
	KindIndex     = 'i' // i <index> <value> <run>
	KindCursor    = 'g' // g <cursor>                 references to the entries of one commit, up to this cursor
	KindWatermark = 'w' // w <queue>                  time at which scans of the queue begin
	KindBlob      = 'b' // b <sha256>                 blob
	KindBlobPiece = 'c' // c <pieces> <n>             piece of a blob or an upload
	KindBlobRef   = 'e' // e <sha256> <run>           the run refers to the blob
	KindUpload    = 'u' // u <principal> <id>         upload under way
	KindImport    = 'x' // x <run>                    import under way

	KindSubscription = 'l' // l <kind> <run> <id>      subscription
	KindDeadLetter   = 'y' // y <kind> <run> <id> <n>  delivery that failed after its last attempt

	KindNamespace = 'z' // z <name>                 number of a namespace; in namespace 0

	KindDrop = 'v' // v <prefix>               mark: rows whose keys begin with the prefix are being removed

	KindDeleted = 'D' // D <run>                  description of a run that was deleted
	KindErased  = 'E' // E <run>                  mark: the values of the run were erased

	KindEffect  = 'S' // S <sha256>               step that holds the business key with this hash
	KindAccount = 'A' // A <account>              amounts that runs have reserved and used of the account

	KindUsage = 'U' // U <day> <pack> <state> <model> <tool> (<label> <value>)*  usage that runs settled on the day; U: since when

	KindBackup = 'B' // B <id>                   last commit in the backup with this id; in namespace 0

	KindSchedule = 'T' // T <id>                 progress of the schedule
)

// MaxKey is the maximum size of a key in bytes. It is small because keys are kept in memory. Badger
// itself accepts 65 000 bytes.
const MaxKey = 8192

// NameField returns the name of the request field that is the reason if a key of this kind is too long.
func NameField(kind byte) string {
	switch kind {
	case KindRunID, KindCallerID:
		return "id"
	case KindArtifact:
		return "artifacts"
	case KindIndex:
		return "labels"
	case KindPackName, KindPackRef, KindPackBare:
		return "pack"
	}
	return "run_id"
}

// FormatKey is the key of the row with the storage format and the epoch (random id) of the store.
var FormatKey = []byte{KindFormat}

// GroupKey is the key of the row with the number of the newest commit group that has no entries. The
// row is never deleted, so that Badger's tables and logs always show with which group they end.
var GroupKey = []byte{KindFormat, 'g'}

// RunKeysKey is the key of the row with the id of the file of run keys and the number of its keys. The
// row exists if the file does.
var RunKeysKey = []byte{KindFormat, 'k'}

// Prefix appends the beginning of a key to b: the kind and the namespace.
func Prefix(b []byte, kind byte, ns uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), ns)
}

// AppendName appends a string so that keys sort in the order of the strings, and no string can be
// mistaken for the beginning of another. Therefore 0x00 is encoded as 0x00 0xFF, and the end as 0x00
// 0x01.
func AppendName(b []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(append(b, s...), 0, 1)
		}
		b = append(append(b, s[:i]...), 0, 0xFF)
		s = s[i+1:]
	}
}

// CutName reads a string that [AppendName] has appended. It returns false if b does not begin with one.
func CutName(b []byte) (s string, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i >= 0 && i+1 < len(b) && b[i+1] == 1 {
		return string(b[:i]), b[i+2:], true
	}
	var out []byte
	for i >= 0 && i+1 < len(b) {
		switch b[i+1] {
		case 1:
			return string(append(out, b[:i]...)), b[i+2:], true
		case 0xFF:
			out = append(append(out, b[:i]...), 0)
			b = b[i+2:]
		default:
			return "", nil, false
		}
		i = bytes.IndexByte(b, 0)
	}
	return "", nil, false
}

// Number appends a number to a key so that keys sort in the order of the numbers.
func Number(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// Instant appends a time in Unix nanoseconds to a key so that keys sort in the order of the times, even
// before 1970.
func Instant(b []byte, at int64) []byte { return Number(b, uint64(at)^(1<<63)) }

// HeadKey returns the key of a run's head.
func HeadKey(ns uint32, run string) []byte { return appendHeadKey(make([]byte, 0, 40), ns, run) }

func appendHeadKey(b []byte, ns uint32, run string) []byte {
	return AppendName(Prefix(b, KindHead, ns), run)
}

// EntryOf returns the key of a journal entry. It is made from head, the key of the run's stored state,
// and reuses the memory of b.
func EntryOf(b, head []byte, first uint64) []byte {
	b = append(b[:0], head...)
	b[0] = KindEntry
	return Number(b, first)
}

// RunKey appends the kind, the namespace and the run. The keys of many kinds of rows begin with these.
func RunKey(b []byte, kind byte, ns uint32, run string) []byte {
	return AppendName(Prefix(b, kind, ns), run)
}

// EntryKey returns the key of the journal entry that begins with the record first.
func EntryKey(ns uint32, run string, first uint64) []byte {
	return Number(RunKey(make([]byte, 0, 48), KindEntry, ns, run), first)
}

// CursorKey appends the key of the cursor row that ends with the given cursor.
func CursorKey(b []byte, ns uint32, cursor uint64) []byte {
	return Number(Prefix(b, KindCursor, ns), cursor)
}

// DedupeKey appends the key of the row for a used request id.
func DedupeKey(b []byte, ns uint32, d *machine.Dedupe) []byte {
	if d.Scope == machine.PerPrincipal {
		b = AppendName(Prefix(b, KindCallerID, ns), d.Principal)
	} else {
		b = RunKey(b, KindRunID, ns, d.RunID)
	}
	return AppendName(append(b, byte(d.Kind)), d.ID)
}

// EffectKey appends the key of a business key's row.
func EffectKey(b []byte, ns uint32, key [32]byte) []byte {
	return append(Prefix(b, KindEffect, ns), key[:]...)
}

// TimerKey appends the key of a timer.
func TimerKey(b []byte, ns uint32, t *machine.Timer) []byte {
	b = AppendName(Instant(Prefix(b, KindTimer, ns), t.Due), t.RunID)
	return binary.BigEndian.AppendUint32(append(b, byte(t.Kind)), t.Step)
}

// ReadTimer decodes a timer's key. The turn is in the row's value.
func ReadTimer(key []byte) (machine.Timer, error) {
	var t machine.Timer
	if len(key) >= 13 {
		t.Namespace = binary.BigEndian.Uint32(key[1:])
		t.Due = DueAt(key[5:])
		if run, rest, ok := CutName(key[13:]); ok && len(rest) == 5 {
			t.RunID, t.Kind, t.Step = run, machine.TimerKind(rest[0]), binary.BigEndian.Uint32(rest[1:])
			return t, nil
		}
	}
	return t, fmt.Errorf("malformed timer key %x", key)
}

// OutboxKey appends the key of outgoing work.
func OutboxKey(b []byte, ns uint32, r *machine.OutboxRow) []byte {
	b = append(Prefix(b, KindOutbox, ns), byte(r.Kind))
	b = AppendName(Instant(b, r.Due), r.RunID)
	b = binary.BigEndian.AppendUint32(b, r.Step)
	return binary.BigEndian.AppendUint32(b, uint32(r.Attempt))
}

// ReadOutbox is the inverse of [OutboxKey].
func ReadOutbox(key []byte) (machine.OutboxRow, error) {
	var r machine.OutboxRow
	if len(key) >= 14 {
		r.Namespace = binary.BigEndian.Uint32(key[1:])
		r.Kind = machine.OutboxKind(key[5])
		r.Due = DueAt(key[6:])
		if run, rest, ok := CutName(key[14:]); ok && len(rest) == 8 {
			r.RunID, r.Step = run, binary.BigEndian.Uint32(rest)
			r.Attempt = int(binary.BigEndian.Uint32(rest[4:]))
			return r, nil
		}
	}
	return r, fmt.Errorf("malformed outbox key %x", key)
}

// IndexPrefix appends the beginning of the keys for one value in a list index, for example one status.
// These keys are sorted by run.
func IndexPrefix(b []byte, ns uint32, index, value string) []byte {
	return AppendName(AppendName(Prefix(b, KindIndex, ns), index), value)
}

// IndexKey appends the key of a run's row in a list index.
func IndexKey(b []byte, ns uint32, run string, c *machine.IndexChange) []byte {
	return AppendName(IndexPrefix(b, ns, c.Index, c.Value), run)
}

// ArtifactPrefix appends the beginning of the keys of an artifact's rows.
func ArtifactPrefix(b []byte, ns uint32, run, artifact string) []byte {
	return AppendName(RunKey(b, KindArtifact, ns, run), artifact)
}

// MessagePrefix appends the beginning of the keys of a conversation's rows.
func MessagePrefix(b []byte, ns uint32, run, state string) []byte {
	return AppendName(RunKey(b, KindMessage, ns, run), state)
}

// TaskRow decodes a key of a list index, for example of a task index. It returns the index value and the run in
// the key.
func TaskRow(key []byte, ns uint32) (value, run string, err error) {
	rest := key[len(Prefix(nil, KindIndex, ns)):]
	var names [3]string
	for i := range names {
		var ok bool
		if names[i], rest, ok = CutName(rest); !ok {
			return "", "", errors.New("malformed index key")
		}
	}
	return names[1], names[2], nil
}

// RunOf returns the namespace and the run from a key that begins with them.
func RunOf(key []byte) (uint32, string, error) {
	if len(key) > 5 {
		if run, _, ok := CutName(key[5:]); ok {
			return binary.BigEndian.Uint32(key[1:]), run, nil
		}
	}
	return 0, "", NewDamage("", "malformed key %x", key)
}

// LastNumber returns the number that follows the prefix p at the end of a key.
func LastNumber(key, p []byte) (uint64, error) {
	if len(key) != len(p)+8 {
		return 0, fmt.Errorf("malformed key %x", key)
	}
	return binary.BigEndian.Uint64(key[len(p):]), nil
}

// DropKey returns the key of a row that exists while all rows whose keys begin with p are being
// removed. p begins with a kind and a namespace.
func DropKey(p []byte) []byte {
	ns := binary.BigEndian.Uint32(p[1:])
	return append(append(Prefix(make([]byte, 0, len(p)+1), KindDrop, ns), p[0]), p[5:]...)
}

// DroppedPrefix is the inverse of [DropKey].
func DroppedPrefix(key []byte) ([]byte, error) {
	if len(key) < 7 {
		return nil, fmt.Errorf("malformed removal key %x", key)
	}
	return append(Prefix(nil, key[5], binary.BigEndian.Uint32(key[1:])), key[6:]...), nil
}

// AccountKey appends the key of an account's row.
func AccountKey(b []byte, ns uint32, account string) []byte {
	return AppendName(Prefix(b, KindAccount, ns), account)
}

// BackupKey returns the key of the row by which the store remembers a backup.
func BackupKey(id string) []byte { return AppendName(Prefix(nil, KindBackup, 0), id) }

// NamespaceKey returns the key of a namespace's number.
func NamespaceKey(ns string) []byte { return AppendName(Prefix(nil, KindNamespace, 0), ns) }

// ReadNamespace decodes the row of a namespace's number.
func ReadNamespace(key, value []byte) (ns string, number uint32, err error) {
	ns, rest, ok := CutName(key[min(5, len(key)):])
	n, err := codec.DecodeNumber(value)
	if err != nil {
		return ns, 0, err
	}
	if !ok || len(rest) > 0 || n == 0 || n > math.MaxUint32 {
		return ns, 0, fmt.Errorf("malformed namespace %x with number %d", key, n)
	}
	return ns, uint32(n), nil
}

// keyKind describes one kind of key. A kind that is not in [Kinds] does not occur in any store. A test
// compares Kinds with the constants in keys.go.
type keyKind struct {
	// Row is the name of the kind in faults that a check reports. It is "" if a check reports none
	// about this kind.
	Row string
	// Guarded means that a precondition of a commit may read keys of this kind. The committer then
	// keeps the values that it has set for these keys, until readers of the store can see them.
	Guarded bool
	// Large means that a value may be so large that the storage engine stores it separately, in a value
	// log.
	Large bool
	// Hot means that rows of this kind are often rewritten, or often added and removed. A storage
	// engine may store them in a separate table.
	Hot bool
	// Queue returns the queue to which the row of a key belongs, and the time at which the row is due.
	// If rows of this kind are in no queue, Queue is nil.
	Queue func(key []byte) (QueueID, int64)
}

// Kinds describes every kind of key. No precondition of a commit reads rows of a kind that is not
// guarded. A commit that writes these rows may have preconditions on the run's last record or on rows of
// other kinds.
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

	KindUsage: {Hot: true, Row: "usage", Guarded: true},

	KindBackup: {Row: "mark of a backup"},

	KindSchedule: {Hot: true, Row: "schedule"},
}

// RemovesLargeValue reports whether the op removes a value that may be large.
func (o *Op) RemovesLargeValue() bool { return o.Delete && Kinds[o.Key[0]].Large }

// Guard returns an error if a precondition may not read keys of this kind. The committer keeps the
// values of these keys only for guarded kinds, so the precondition would not see the group in flight.
func Guard(key []byte) error {
	if !Kinds[key[0]].Guarded {
		return fmt.Errorf("precondition on a key of kind %q, which is not guarded", key[0])
	}
	return nil
}

// timerDue and outboxDue return the queue and the due time of a key. They do not check the length of the key.
func timerDue(key []byte) (QueueID, int64) {
	return QueueID{Kind: TimerQueue, Ns: binary.BigEndian.Uint32(key[1:])}, DueAt(key[5:])
}

func outboxDue(key []byte) (QueueID, int64) {
	return QueueID{Kind: key[5], Ns: binary.BigEndian.Uint32(key[1:])}, DueAt(key[6:])
}

// DueAt is the inverse of [Instant].
func DueAt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }

// TimerQueue is the kind of the queue of timers. The kinds of all other queues are those of outgoing
// work (outbox rows).
const TimerQueue = 0

// QueueID identifies a queue of a namespace: its timers, or its outgoing work of one kind.
type QueueID struct {
	Kind byte
	Ns   uint32
}

// MarkOp returns the op that stores the watermark of a queue (where scans begin). No row of the queue
// may be due before the time at.
func MarkOp(q QueueID, at int64) *Op {
	key := append(Prefix(make([]byte, 0, 8), KindWatermark, q.Ns), q.Kind)
	return &Op{Key: key, Value: codec.EncodeNumber(uint64(at))}
}

// QueuePrefix returns the beginning of the keys of a queue's rows. The due time follows it in the keys.
func QueuePrefix(q QueueID) []byte {
	if q.Kind == TimerQueue {
		return Prefix(make([]byte, 0, 16), KindTimer, q.Ns)
	}
	return append(Prefix(make([]byte, 0, 16), KindOutbox, q.Ns), q.Kind)
}

// BlobKey returns the key of a blob, which contains the blob's hash.
func BlobKey(ns uint32, sum [32]byte) []byte { return append(Prefix(nil, KindBlob, ns), sum[:]...) }

// PiecesPrefix returns the beginning of the keys of all pieces of a blob or an upload.
func PiecesPrefix(ns uint32, pieces [16]byte) []byte {
	return append(Prefix(nil, KindBlobPiece, ns), pieces[:]...)
}

// PieceKey returns the key of piece n of an upload or a blob. The pieces are counted from 0.
func PieceKey(ns uint32, pieces [16]byte, n int) []byte {
	return binary.BigEndian.AppendUint32(PiecesPrefix(ns, pieces), uint32(n))
}

// UploadKey returns the key of an upload in progress.
func UploadKey(ns uint32, key machine.UploadKey) []byte {
	return AppendName(AppendName(Prefix(nil, KindUpload, ns), key.Principal), key.ID)
}

// blobRef is the beginning of every reference to a blob in the bytes of a journal entry.
var blobRef = []byte("blob:sha256:")

// BlobRefsOf returns the beginning of the keys of all references to a blob.
func BlobRefsOf(ns uint32, sum [32]byte) []byte {
	return append(Prefix(nil, KindBlobRef, ns), sum[:]...)
}

func blobRefKey(ns uint32, sum [32]byte, run string) []byte {
	return AppendName(BlobRefsOf(ns, sum), run)
}

// RefsIn returns the hashes of the blobs that stored bytes refer to, without duplicates.
func RefsIn(value []byte) [][32]byte {
	var refs [][32]byte
	var seen map[[32]byte]bool
	for {
		i := bytes.Index(value, blobRef)
		if i < 0 {
			return refs
		}
		value = value[i+len(blobRef):]
		var sum [32]byte
		if len(value) < 2*len(sum) {
			return refs
		}
		if _, err := hex.Decode(sum[:], value[:2*len(sum)]); err != nil || seen[sum] {
			continue
		}
		if seen == nil {
			seen = make(map[[32]byte]bool)
		}
		seen[sum] = true
		refs = append(refs, sum)
	}
}

// addBlobRows adds a row for each blob that the entry refers to. The rows are stored in the same commit as
// the entry. Otherwise a sweep of old blobs could remove the blob between two commits.
func (w *EntryRows) addBlobRows(run string, entry []byte) {
	for _, sum := range RefsIn(entry) {
		w.Ops = append(w.Ops, Op{Key: blobRefKey(w.Ns, sum, run), Value: codec.Mark})
	}
}

// CheckPack returns an error if the digest of a row is not the digest of its bytes.
func CheckPack(r *machine.PackRow) error {
	sum := sha256.Sum256(r.Canonical)
	if want := "sha256:" + hex.EncodeToString(sum[:]); r.Digest != want {
		return fmt.Errorf("pack %s@%s: digest is %q, its bytes have %q", r.ID, r.Version, r.Digest, want)
	}
	return nil
}

// BareValue returns the value of the row under a pack's id without a version. It is the version that is
// used if a caller names only the id.
func BareValue(version string) []byte { return append([]byte{codec.Format}, version...) }

// PackKey returns the key of a pack's bytes.
func PackKey(digest string) []byte { return append([]byte{KindPack}, digest...) }

// PackNameKey returns the key of a pack by its id and version.
func PackNameKey(ns uint32, id, version string) []byte {
	return AppendName(AppendName(Prefix(nil, KindPackName, ns), id), version)
}

// PackRefKey returns the key of a pack by its digest in a namespace.
func PackRefKey(ns uint32, digest string) []byte {
	return AppendName(Prefix(nil, KindPackRef, ns), digest)
}

// PackBareKey returns the key of a pack by its id without a version.
func PackBareKey(ns uint32, id string) []byte { return AppendName(Prefix(nil, KindPackBare, ns), id) }

// PackKeys returns the three keys of a pack in a namespace.
func PackKeys(ns uint32, id, version, digest string) (byName, ref, bare []byte) {
	return PackNameKey(ns, id, version), PackRefKey(ns, digest), PackBareKey(ns, id)
}

// ScheduleKey returns the key of a schedule's row.
func ScheduleKey(ns uint32, id string) []byte { return AppendName(Prefix(nil, KindSchedule, ns), id) }

// ReadScheduleKey is the inverse of [ScheduleKey].
func ReadScheduleKey(key []byte) (ns uint32, id string, err error) {
	if len(key) > 5 {
		if id, rest, ok := CutName(key[5:]); ok && len(rest) == 0 {
			return binary.BigEndian.Uint32(key[1:]), id, nil
		}
	}
	return 0, "", fmt.Errorf("malformed schedule key %x", key)
}

// SubscriptionKey returns the key of a subscription's row. If row is [KindDeadLetter], it returns the
// beginning of the keys of the subscription's dead letters.
func SubscriptionKey(row byte, key machine.SubscriptionKey) []byte {
	b := append(Prefix(nil, row, key.Namespace), byte(key.Kind))
	return AppendName(AppendName(b, key.Run), key.ID)
}

// DeadLetterKey returns the key of the dead letter with the number n.
func DeadLetterKey(key machine.SubscriptionKey, n uint64) []byte {
	return Number(SubscriptionKey(KindDeadLetter, key), n)
}

// ReadSubscriptionKey decodes a key that [SubscriptionKey] has made. rest is the part of b behind it.
func ReadSubscriptionKey(b []byte) (key machine.SubscriptionKey, rest []byte, err error) {
	if len(b) < 6 {
		return key, nil, fmt.Errorf("malformed subscription key %x", b)
	}
	key.Namespace, key.Kind = binary.BigEndian.Uint32(b[1:5]), machine.SubscriptionKind(b[5])
	var ok bool
	if key.Run, rest, ok = CutName(b[6:]); ok {
		key.ID, rest, ok = CutName(rest)
	}
	if !ok {
		return key, nil, fmt.Errorf("malformed subscription key %x", b)
	}
	return key, rest, nil
}
