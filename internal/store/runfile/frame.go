package runfile

import "errors"

// Version of the format; a file of a higher one is refused.
const Version = 1

const magic = "PAWLRUN\n"

// MaxFrame bounds one frame, bytes: a commit takes at most 8 MiB, a pack less.
const MaxFrame = 16 << 20

// Kind of a frame; the numbers are stored, never renumber.
type Kind byte

const (
	// KindHeader is a [Header] as JSON.
	KindHeader Kind = iota + 1
	// KindPack is the pack's canonical JSON.
	KindPack
	// KindEntry is one stored entry, its cursor zero.
	KindEntry
	// KindBlob is a [Blob] as JSON, KindPiece the next of its bytes.
	KindBlob
	KindPiece
	// KindSeal is the SHA-256 of all bytes before it. It is the last frame.
	KindSeal
)

// Header says what a file holds.
type Header struct {
	RunID  string `json:"run_id"`
	Digest string `json:"digest"`
	// Entry, Agent and EntryOverride select the graph of the pack.
	Entry         string `json:"entry"`
	Agent         string `json:"agent,omitempty"`
	EntryOverride bool   `json:"entry_override,omitempty"`
	// Records is the last seq, Hash the end of the chain in hex.
	Records uint64 `json:"records"`
	Hash    string `json:"hash"`
}

// Blob introduces the pieces of a blob.
type Blob struct {
	// SHA256 in hex.
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size"`
	MediaType string `json:"media_type,omitempty"`
}

// Errors of a reader, wrapped with where and why.
var (
	// ErrInvalid means that the bytes are not an export, or were changed.
	ErrInvalid = errors.New("is no intact export of a run")
	// ErrTruncated: the file ends before its seal.
	ErrTruncated = errors.New("the export is cut short")
	// ErrNewer: a newer version wrote it.
	ErrNewer = errors.New("a newer version made the export")
)
