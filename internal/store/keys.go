package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The first byte of every key. All but kindFormat and kindPack are followed by
// the namespace in four bytes; numbers are big-endian, so that keys sort as the
// numbers do.
const (
	kindFormat    = 'F' // F                          format version and epoch
	kindPack      = 'p' // p <digest>                 pack bytes
	kindPackName  = 'n' // n <id> <version>           name -> digest
	kindPackRef   = 'q' // q <digest>                 registered in this namespace as
	kindPackBare  = 'f' // f <id>                     version that the bare id means
	kindHead      = 'h' // h <run>                    state, see headDue
	kindEntry     = 'j' // j <run> <first seq>        entry
	kindSnapshot  = 'k' // k <run> <seq>              checkpoint
	kindArtifact  = 'a' // a <run> <name> <seq>       artifact versions up to seq
	kindMessage   = 'm' // m <run> <state> <n>        conversation row
	kindRunID     = 'd' // d <run> <kind> <id>        idempotency in a run
	kindCallerID  = 's' // s <principal> <kind> <id>  idempotency of a principal
	kindTimer     = 't' // t <due> <run> <kind> <step>
	kindOutbox    = 'o' // o <kind> <due> <run> <step> <attempt>; a step's value is its holder
	kindReady     = 'r' // r <run>
	kindIndex     = 'i' // i <index> <value> <run>
	kindCursor    = 'g' // g <cursor>                 order of everything: a group's entries up to cursor
	kindWatermark = 'w' // w <queue>                  where a queue's scan starts
	kindBlob      = 'b' // b <sha256>                 blob
	kindBlobPiece = 'c' // c <pieces> <n>             piece of a blob or an upload
	kindBlobRef   = 'e' // e <sha256> <run>           the run refers to the blob
	kindUpload    = 'u' // u <principal> <id>         upload under way
	kindImport    = 'x' // x <run>                    import under way

	kindSubscription = 'l' // l <kind> <run> <id>      subscription
	kindDeadLetter   = 'y' // y <kind> <run> <id> <n>  delivery that was given up

	kindNamespace = 'z' // z <name>                 number of a namespace; in namespace 0

	kindDrop = 'v' // v <prefix>               rows under the prefix are being removed
)

// maxKey bounds a key in bytes: keys are held in memory, and Badger takes 65 000.
const maxKey = 8192

// nameField is the request field to blame for a key that is too long.
func nameField(kind byte) string {
	switch kind {
	case kindRunID, kindCallerID:
		return "id"
	case kindArtifact:
		return "artifacts"
	case kindIndex:
		return "labels"
	case kindPackName, kindPackRef, kindPackBare:
		return "pack"
	}
	return "run_id"
}

var formatKey = []byte{kindFormat}

// groupKey holds the number of the newest group that has no entries. It is never
// compacted away: what tables and logs have tells the group they end with.
var groupKey = []byte{kindFormat, 'g'}

// prefix begins a key of a kind in a namespace.
func prefix(b []byte, kind byte, ns uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), ns)
}

// name appends a string so that keys sort as the strings do and no string is
// mistaken for the beginning of another: 0x00 becomes 0x00 0xFF, the end is
// 0x00 0x01.
func name(b []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(append(b, s...), 0, 1)
		}
		b = append(append(b, s[:i]...), 0, 0xFF)
		s = s[i+1:]
	}
}

// cutName is the inverse of name; false if the bytes do not begin with one.
func cutName(b []byte) (s string, rest []byte, ok bool) {
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

func number(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// instant appends Unix nanoseconds so that times before 1970 sort first.
func instant(b []byte, at int64) []byte { return number(b, uint64(at)^(1<<63)) }

func headKey(ns uint32, run string) []byte { return appendHeadKey(make([]byte, 0, 40), ns, run) }

func appendHeadKey(b []byte, ns uint32, run string) []byte {
	return name(prefix(b, kindHead, ns), run)
}

// entryOf makes the key of an entry from the head key of its run.
func entryOf(b, head []byte, first uint64) []byte {
	b = append(b[:0], head...)
	b[0] = kindEntry
	return number(b, first)
}

func runKey(b []byte, kind byte, ns uint32, run string) []byte {
	return name(prefix(b, kind, ns), run)
}

func entryKey(ns uint32, run string, first uint64) []byte {
	return number(runKey(make([]byte, 0, 48), kindEntry, ns, run), first)
}

func cursorKey(b []byte, ns uint32, cursor uint64) []byte {
	return number(prefix(b, kindCursor, ns), cursor)
}

func dedupeKey(b []byte, ns uint32, d *machine.Dedupe) []byte {
	if d.Scope == machine.PerPrincipal {
		b = name(prefix(b, kindCallerID, ns), d.Principal)
	} else {
		b = runKey(b, kindRunID, ns, d.RunID)
	}
	return name(append(b, byte(d.Kind)), d.ID)
}

func timerKey(b []byte, ns uint32, t *machine.Timer) []byte {
	b = name(instant(prefix(b, kindTimer, ns), t.Due), t.RunID)
	return binary.BigEndian.AppendUint32(append(b, byte(t.Kind)), t.Step)
}

// readTimer reads a timer's key; the turn is in the value.
func readTimer(key []byte) (machine.Timer, error) {
	var t machine.Timer
	if len(key) >= 13 {
		t.Namespace = binary.BigEndian.Uint32(key[1:])
		t.Due = dueAt(key[5:])
		if run, rest, ok := cutName(key[13:]); ok && len(rest) == 5 {
			t.RunID, t.Kind, t.Step = run, machine.TimerKind(rest[0]), binary.BigEndian.Uint32(rest[1:])
			return t, nil
		}
	}
	return t, fmt.Errorf("malformed timer key %x", key)
}

func outboxKey(b []byte, ns uint32, r *machine.OutboxRow) []byte {
	b = append(prefix(b, kindOutbox, ns), byte(r.Kind))
	b = name(instant(b, r.Due), r.RunID)
	b = binary.BigEndian.AppendUint32(b, r.Step)
	return binary.BigEndian.AppendUint32(b, uint32(r.Attempt))
}

func readOutbox(key []byte) (machine.OutboxRow, error) {
	var r machine.OutboxRow
	if len(key) >= 14 {
		r.Namespace = binary.BigEndian.Uint32(key[1:])
		r.Kind = machine.OutboxKind(key[5])
		r.Due = dueAt(key[6:])
		if run, rest, ok := cutName(key[14:]); ok && len(rest) == 8 {
			r.RunID, r.Step = run, binary.BigEndian.Uint32(rest)
			r.Attempt = int(binary.BigEndian.Uint32(rest[4:]))
			return r, nil
		}
	}
	return r, fmt.Errorf("malformed outbox key %x", key)
}

// indexPrefix begins the keys of one value of one index, sorted by run.
func indexPrefix(b []byte, ns uint32, index, value string) []byte {
	return name(name(prefix(b, kindIndex, ns), index), value)
}

func indexKey(b []byte, ns uint32, run string, c *machine.IndexChange) []byte {
	return name(indexPrefix(b, ns, c.Index, c.Value), run)
}

func artifactPrefix(b []byte, ns uint32, run, artifact string) []byte {
	return name(runKey(b, kindArtifact, ns, run), artifact)
}

func messagePrefix(b []byte, ns uint32, run, state string) []byte {
	return name(runKey(b, kindMessage, ns, run), state)
}
