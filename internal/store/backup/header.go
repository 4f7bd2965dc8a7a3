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

// ErrForeign: the backup to follow on is not of this store's past.
var ErrForeign = errors.New("this store has not made the backup that this one is to follow on")

// ErrInvalid marks a file that is no whole backup, or the wrong one.
var ErrInvalid = errors.New("not a whole backup")

// next is the header of the backup that follows on parent, which goes up to since; "" and 0
// = of everything.
func next(from Source, parent string, since uint64, at int64) (Header, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return Header{}, err
	}
	return Header{
		Form: formVersion, Format: from.Format, ID: hex.EncodeToString(id[:]), Parent: parent,
		Epoch: hex.EncodeToString(from.Epoch[:]), Since: since, Group: from.Group, At: at,
	}, nil
}

// parseHeader reads a header.
func parseHeader(raw []byte) (h Header, err error) {
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, fmt.Errorf("%w: its header: %w", ErrInvalid, err)
	}
	if h.Form != formVersion {
		return h, fmt.Errorf("%w: its form is %d, this program reads %d", ErrInvalid, h.Form, formVersion)
	}
	return h, nil
}
