package backup

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// formVersion is the version of the file format of a backup.
const formVersion = 1

// magic is the beginning of every backup.
const magic = "PAWLBACK"

// Header describes a backup.
type Header struct {
	// Form is the version of the file format of the backup. Format is the storage format of the store.
	Form   int    `json:"form"`
	Format uint32 `json:"format"`
	// ID identifies the backup: a ULID in hexadecimal digits, which begins with the time of the backup. In a backup of an
	// older program all of it is random. Parent is the ID of the backup that it continues. For a full backup
	// Parent is "".
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"`
	// Epoch is the random id of the store, in hexadecimal digits.
	Epoch string `json:"epoch"`
	// Since and Group bound the commits in the backup. It contains the commits after Since, up to and
	// including Group.
	Since uint64 `json:"since"`
	Group uint64 `json:"group"`
	// At is the time at which the backup began, in Unix nanoseconds.
	At int64 `json:"at"`
}

// ErrForeign means that the backup which a new backup should continue was not made by this store, or that the
// store no longer knows it.
var ErrForeign = errors.New("the store did not make the backup that the new backup continues")

// ErrInvalid means that a file is not a complete backup, or that it is not the expected backup.
var ErrInvalid = errors.New("the backup is invalid or incomplete")

// next returns the header of the backup that continues the backup with the id parent. since is the last
// commit of parent. For a full backup, parent is "" and since is 0.
func next(from Source, parent string, since uint64, at int64) (Header, error) {
	id, err := ulid.New(ulid.Timestamp(time.Unix(0, at)), rand.Reader)
	if err != nil {
		return Header{}, err
	}
	return Header{
		Form: formVersion, Format: from.Format, ID: hex.EncodeToString(id[:]), Parent: parent,
		Epoch: hex.EncodeToString(from.Epoch[:]), Since: since, Group: from.Group, At: at,
	}, nil
}

// parseHeader decodes a header.
func parseHeader(raw []byte) (h Header, err error) {
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, fmt.Errorf("%w: cannot read its header: %w", ErrInvalid, err)
	}
	if h.Form != formVersion {
		return h, fmt.Errorf("%w: its format version is %d, this program reads %d", ErrInvalid, h.Form, formVersion)
	}
	return h, nil
}
