package runfile

import "errors"

// Version is the version of the file format. A reader refuses a file with a higher version.
const Version = 1

const magic = "PAWLRUN\n"

// MaxFrame is the maximum size of one frame of an export file in bytes. A commit has at most 8 MiB, and
// a pack is smaller.
const MaxFrame = 16 << 20

// Kind is the kind of a frame in an export file. The numbers are stored in files, so they must never
// change.
type Kind byte

const (
	// KindHeader is a [Header] as JSON.
	KindHeader Kind = iota + 1
	// KindPack is the pack's canonical JSON.
	KindPack
	// KindEntry is one stored entry, with cursor 0.
	KindEntry
	// KindBlob is the description of a blob, a [Blob] as JSON. KindPiece is the next part of its bytes.
	KindBlob
	KindPiece
	// KindSeal is the SHA-256 of all bytes before it. It must be the last frame of the file.
	KindSeal
)

// Header describes the run in a file.
type Header struct {
	RunID  string `json:"run_id"`
	Digest string `json:"digest"`
	// Entry, Agent and EntryOverride select the workflow graph in the pack.
	Entry         string `json:"entry"`
	Agent         string `json:"agent,omitempty"`
	EntryOverride bool   `json:"entry_override,omitempty"`
	// Records is the number of the last record. Hash is the hash at the end of the run's chain, in
	// hexadecimal digits.
	Records uint64 `json:"records"`
	Hash    string `json:"hash"`
}

// Blob describes a blob. Its pieces follow.
type Blob struct {
	// SHA256 is the hash of the blob in hexadecimal digits.
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size"`
	MediaType string `json:"media_type,omitempty"`
}

// These are the errors of a Reader. They are wrapped with the position and the cause.
var (
	// ErrInvalid means that the bytes are not an export, or were changed.
	ErrInvalid = errors.New("is no intact export of a run")
	// ErrTruncated means that the file ends before its seal.
	ErrTruncated = errors.New("the export is cut short")
	// ErrNewer means that a newer version wrote the file.
	ErrNewer = errors.New("a newer version made the export")
)
