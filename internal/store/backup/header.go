package backup

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// formVersion of a backup's file.
const formVersion = 1

// magic begins every backup.
const magic = "PAWLBACK"

// Header says what a backup is of.
type Header struct {
	// Form is the version of the file's form, Format that of the store.
	Form   int    `json:"form"`
	Format uint32 `json:"format"`
	// ID names the backup, Parent the one that it follows on; "" = everything is in it.
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"`
	// Epoch names the store, in hexadecimal digits.
	Epoch string `json:"epoch"`
	// Since and Group are the commits behind which it begins and with which it ends.
	Since uint64 `json:"since"`
	Group uint64 `json:"group"`
	// At is when it was begun, Unix nanoseconds.
	At int64 `json:"at"`
}

// ErrForeign: the backup to follow on is not of this store.
var ErrForeign = errors.New("the backup is of another store")

// ErrInvalid marks a file that is no whole backup, or the wrong one.
var ErrInvalid = errors.New("not a whole backup")

// Next is the header of the backup that follows on after, nil = of everything.
func Next(after *Header, format uint32, epoch [16]byte, group uint64, at int64) (Header, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return Header{}, err
	}
	h := Header{Form: formVersion, Format: format, ID: hex.EncodeToString(id[:]), Epoch: hex.EncodeToString(epoch[:]), Group: group, At: at}
	if after == nil {
		return h, nil
	}
	if after.Epoch != h.Epoch || after.Group > group {
		return h, fmt.Errorf("%w: %s up to group %d, this is %s at group %d", ErrForeign, after.Epoch, after.Group, h.Epoch, group)
	}
	h.Parent, h.Since = after.ID, after.Group
	return h, nil
}

// ParseHeader reads a header; nil for none.
func ParseHeader(raw []byte) (*Header, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var h Header
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, fmt.Errorf("%w: its header: %w", ErrInvalid, err)
	}
	if h.Form != formVersion {
		return nil, fmt.Errorf("%w: its form is %d, this program reads %d", ErrInvalid, h.Form, formVersion)
	}
	return &h, nil
}
