package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// The first byte of every key is its kind. For all kinds except KindFormat and KindPack, the next four
// bytes are the namespace. Numbers are big-endian, so that keys sort in the order of the numbers.
const (
	KindFormat    = 'F' // F                          format version and epoch
	KindPack      = 'p' // p <digest>                 pack bytes
	KindPackName  = 'n' // n <id> <version>           name -> digest
	KindPackRef   = 'q' // q <digest>                 registered in this namespace as
	KindPackBare  = 'f' // f <id>                     version that the bare id means
	KindHead      = 'h' // h <run>                    state, see headDue
	KindEntry     = 'j' // j <run> <first seq>        entry
	KindSnapshot  = 'k' // k <run> <seq>              checkpoint
	KindArtifact  = 'a' // a <run> <name> <seq>       artifact versions up to seq
	KindMessage   = 'm' // m <run> <state> <n>        conversation row
	KindRunID     = 'd' // d <run> <kind> <id>        idempotency in a run
	KindCallerID  = 's' // s <principal> <kind> <id>  idempotency of a principal
	KindTimer     = 't' // t <due> <run> <kind> <step>
	KindOutbox    = 'o' // o <kind> <due> <run> <step> <attempt>; a step's value is its holder
	KindReady     = 'r' // r <run>
	KindIndex     = 'i' // i <index> <value> <run>
	KindCursor    = 'g' // g <cursor>                 order of everything: a group's entries up to cursor
	KindWatermark = 'w' // w <queue>                  where a queue's scan starts
	KindBlob      = 'b' // b <sha256>                 blob
	KindBlobPiece = 'c' // c <pieces> <n>             piece of a blob or an upload
	KindBlobRef   = 'e' // e <sha256> <run>           the run refers to the blob
	KindUpload    = 'u' // u <principal> <id>         upload under way
	KindImport    = 'x' // x <run>                    import under way

	KindSubscription = 'l' // l <kind> <run> <id>      subscription
	KindDeadLetter   = 'y' // y <kind> <run> <id> <n>  delivery that failed after its last attempt

	KindNamespace = 'z' // z <name>                 number of a namespace; in namespace 0

	KindDrop = 'v' // v <prefix>               rows under the prefix are being removed

	KindDeleted = 'D' // D <run>                  what is kept of a run that was deleted
	KindErased  = 'E' // E <run>                  the values of the run were erased

	KindEffect  = 'S' // S <sha256>               business key: the step that has the effect
	KindAccount = 'A' // A <account>              what runs have reserved and settled of an account

	KindBackup = 'B' // B <id>                   backup that others may follow on; in namespace 0

	KindSchedule = 'T' // T <id>                 how far a schedule is
)

// MaxKey is the maximum size of a key in bytes. It is low because keys are kept in memory. Badger
// itself accepts 65 000.
const MaxKey = 8192

// NameField returns the name of the request field that makes a key of this kind too long.
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

// FormatKey is the key of the format marker. The value of the marker consists of the format number and
// the epoch.
var FormatKey = []byte{KindFormat}

// GroupKey is the key of the row with the number of the newest group that has no entries. The row is
// never deleted, so that Badger's tables and logs always show with which group they end.
var GroupKey = []byte{KindFormat, 'g'}

// RunKeysKey is the key of the row with the id of the file of run keys and the number of its keys. The
// row exists if the file exists.
var RunKeysKey = []byte{KindFormat, 'k'}

// Prefix appends the beginning of a key: kind and namespace.
func Prefix(b []byte, kind byte, ns uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), ns)
}

// AppendName appends a string. The keys sort in the same order as the strings, and no string can be
// mistaken for the beginning of another. For this purpose 0x00 is encoded as 0x00 0xFF, and the end as
// 0x00 0x01.
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

// CutName is the inverse of [AppendName]. It returns false if the bytes do not begin with a name.
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

// Number appends a number so that keys sort in the order of the numbers.
func Number(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// Instant appends a time in Unix nanoseconds so that keys sort in the order of the times, even for
// times before 1970.
func Instant(b []byte, at int64) []byte { return Number(b, uint64(at)^(1<<63)) }

// HeadKey returns the key of a run's head.
func HeadKey(ns uint32, run string) []byte { return appendHeadKey(make([]byte, 0, 40), ns, run) }

func appendHeadKey(b []byte, ns uint32, run string) []byte {
	return AppendName(Prefix(b, KindHead, ns), run)
}

// EntryOf returns the key of an entry, computed from the head key of its run. It reuses the memory
// of b.
func EntryOf(b, head []byte, first uint64) []byte {
	b = append(b[:0], head...)
	b[0] = KindEntry
	return Number(b, first)
}

// RunKey appends the kind, the namespace and the run. The keys of all rows of a run begin in this way.
func RunKey(b []byte, kind byte, ns uint32, run string) []byte {
	return AppendName(Prefix(b, kind, ns), run)
}

// EntryKey returns the key of the entry that begins with the record first.
func EntryKey(ns uint32, run string, first uint64) []byte {
	return Number(RunKey(make([]byte, 0, 48), KindEntry, ns, run), first)
}

// CursorKey appends the key of the row of cursors that ends with the given cursor.
func CursorKey(b []byte, ns uint32, cursor uint64) []byte {
	return Number(Prefix(b, KindCursor, ns), cursor)
}

// DedupeKey appends the key of a used idempotency id.
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

// IndexPrefix appends the beginning of the keys for one value of one index. These keys are sorted by
// run.
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

// TaskRow returns the value and the run in a key of a task index.
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
	return 0, "", Damaged("", "malformed key %x", key)
}

// LastNumber returns the number that follows the prefix p at the end of a key.
func LastNumber(key, p []byte) (uint64, error) {
	if len(key) != len(p)+8 {
		return 0, fmt.Errorf("malformed key %x", key)
	}
	return binary.BigEndian.Uint64(key[len(p):]), nil
}

// DropKey returns the key of the mark that exists while all rows under the prefix p are being
// removed. p begins with a kind and a namespace.
func DropKey(p []byte) []byte {
	ns := binary.BigEndian.Uint32(p[1:])
	return append(append(Prefix(make([]byte, 0, len(p)+1), KindDrop, ns), p[0]), p[5:]...)
}

// Dropped is the inverse of [DropKey].
func Dropped(key []byte) ([]byte, error) {
	if len(key) < 7 {
		return nil, fmt.Errorf("malformed removal key %x", key)
	}
	return append(Prefix(nil, key[5], binary.BigEndian.Uint32(key[1:])), key[6:]...), nil
}

// AccountKey appends the key of an account's row.
func AccountKey(b []byte, ns uint32, account string) []byte {
	return AppendName(Prefix(b, KindAccount, ns), account)
}

// BackupKey returns the key of the mark of a backup.
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
