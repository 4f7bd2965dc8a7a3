package validate

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Cursor is a position in the journal of all runs of a namespace. It is the position after the record
// Index of the entry at Position. Callers must treat its text form as opaque.
type Cursor struct {
	// Epoch is the id of the store that the cursor belongs to.
	Epoch [16]byte
	// Position is the entry's cursor, from 1. 0 means before all entries.
	Position uint64
	// Index counts the records of the entry from 0. WholeEntry means after all of them.
	Index uint16
}

// WholeEntry is the Index of a cursor after a whole entry.
const WholeEntry = 1<<16 - 1

const cursorBytes = 16 + 8 + 2

// String returns the token for callers.
func (c Cursor) String() string {
	var raw [cursorBytes]byte
	copy(raw[:], c.Epoch[:])
	binary.BigEndian.PutUint64(raw[16:], c.Position)
	binary.BigEndian.PutUint16(raw[24:], c.Index)
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// ParseCursor parses the text form of a cursor. It does not check whether the cursor belongs to this
// store, see [Cursor.Resumable].
func ParseCursor(token string) (Cursor, error) {
	var c Cursor
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	// The length is checked too, because the decoder ignores line breaks even in strict mode.
	if err != nil || len(raw) != cursorBytes || len(token) != base64.RawURLEncoding.EncodedLen(cursorBytes) {
		return c, Malformed("BAD_CURSOR", "after_cursor", "is not a cursor of a stream")
	}
	copy(c.Epoch[:], raw)
	c.Position = binary.BigEndian.Uint64(raw[16:])
	c.Index = binary.BigEndian.Uint16(raw[24:])
	return c, nil
}

// Resumable checks that a caller's cursor belongs to the store with this epoch. tail is the newest
// position of the store.
func (c Cursor) Resumable(epoch [16]byte, tail uint64) error {
	switch {
	case c.Epoch != epoch:
		return &machine.Error{
			Code: machine.CodeOutOfRange, Reason: "CURSOR_FOREIGN", Field: "after_cursor",
			Message: "the cursor is of another store; begin without a cursor",
		}
	case c.Position > tail:
		return &machine.Error{
			Code: machine.CodeOutOfRange, Reason: "CURSOR_AHEAD", Field: "after_cursor",
			Message: fmt.Sprintf("the journal ends at %d, before the cursor", tail),
			Limit:   figure(tail), Got: figure(c.Position),
		}
	}
	return nil
}

// figure converts a position to the signed number that an error contains.
func figure(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
