package backup

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// A frame of a backup consists of one byte for its kind, four bytes for its length, and its contents.
const (
	frameHeader = 'H'
	frameRows   = 'R'
	frameEnd    = 'E'
)

// frameBytes is the size of the rows in one frame before compression, in bytes. A reader refuses frames
// of more than mostFrame bytes.
const (
	frameBytes = 1 << 20
	mostFrame  = 64 << 20
)

// stable lists the kinds of rows that are written once, or that change and disappear only together with
// their run or blob. An incremental backup has only the new rows of these kinds.
var stable = []byte{
	layout.KindHead, layout.KindEntry, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage,
	layout.KindRunID, layout.KindCallerID, layout.KindBlobRef, layout.KindCursor, layout.KindBlobPiece, layout.KindPack,
}

// carried reports whether backups contain the rows of a kind. They do not contain the row with the
// storage format and the rows about earlier backups, because each store has its own.
func carried(kind byte) bool {
	return layout.Kinds[kind].Row != "" && kind != layout.KindBackup
}

// end is the last frame of a backup. It contains the counts and the digest of the contents.
type end struct {
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// View calls read with a transaction that shows the store as it was when the backup began.
type View func(read func(txn *layout.Txn) error) error

// Source is the store that is backed up, at one moment.
type Source struct {
	Format uint32
	Epoch  [16]byte
	// Group is the number of the last commit that View shows.
	Group uint64
	View  View
	// Note stores the rows by which the store remembers its backups.
	Note func(ctx context.Context, ops []layout.Op) error
}

// Take writes a backup to out. The backup contains what is newer than the backup with the id after, and all
// rows of the short-lived kinds. If after is "", it contains everything. at is the current time in Unix
// nanoseconds. Errors: [ErrForeign], and the errors of from and of out.
func Take(ctx context.Context, from Source, after string, at int64, out io.Writer) (Header, error) {
	since, err := sinceOf(from.View, after)
	if err != nil {
		return Header{}, err
	}
	h, err := next(from, after, since, at)
	if err != nil {
		return h, err
	}
	return h, write(ctx, from, h, out)
}

// write writes a backup. Before the last frame, it stores the row by which the store remembers the backup (its
// mark). So the store remembers every complete backup, except one during which the disk was nearly full. If
// only the last frame cannot be written, the store remembers a backup that is not complete. Each read of the
// store is short, even if out is slow.
func write(ctx context.Context, from Source, h Header, out io.Writer) error {
	w := &writer{out: out, sum: sha256.New()}
	if err := w.begin(h); err != nil {
		return err
	}
	for kind := range layout.Kinds {
		if !carried(byte(kind)) {
			continue
		}
		since := uint64(0)
		if bytes.IndexByte(stable, byte(kind)) >= 0 {
			since = h.Since
		}
		if err := w.kind(ctx, from.View, byte(kind), since); err != nil {
			return fmt.Errorf("back up %s rows: %w", layout.Kinds[kind].Row, err)
		}
	}
	if err := note(ctx, from, h); err != nil {
		return err
	}
	return w.end()
}

// writer writes the frames of one backup, and counts and hashes their contents.
type writer struct {
	out   io.Writer
	sum   hash.Hash
	rows  int64
	bytes int64
}

// begin writes the magic bytes and the frame with the header.
func (w *writer) begin(h Header) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := io.MultiWriter(w.out, w.sum).Write([]byte(magic)); err != nil {
		return err
	}
	return w.frame(frameHeader, raw)
}

// frame writes one frame.
func (w *writer) frame(kind byte, payload []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	to := io.MultiWriter(w.out, w.sum)
	if _, err := to.Write(head); err != nil {
		return err
	}
	_, err := to.Write(payload)
	return err
}

// kind writes the rows of one kind that were set after the commit with the number since.
func (w *writer) kind(ctx context.Context, view View, kind byte, since uint64) error {
	from := []byte{kind}
	for from != nil {
		page, next, err := w.page(ctx, view, from, since)
		if err == nil && len(page) > 0 {
			err = w.packed(page)
		}
		if err != nil {
			return err
		}
		from = next
	}
	return nil
}

// page reads one page of rows, beginning at the key from. next is the key at which the following page
// begins, or nil if no rows follow.
func (w *writer) page(ctx context.Context, view View, from []byte, since uint64) (page, next []byte, err error) {
	kind := from[:1]
	err = view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: kind, Since: since})
		defer it.Close()
		for it.Seek(from); layout.AtPrefix(it, kind); it.Next() {
			if len(page) >= frameBytes {
				next = it.KeyCopy()
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			value, err := layout.CopyOf(it)
			if err != nil {
				return err
			}
			page = appendField(appendField(page, it.Key()), value)
			w.rows++
		}
		return nil
	})
	return page, next, err
}

func appendField(b, field []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}

// packed writes a page of rows as one compressed frame.
func (w *writer) packed(page []byte) error {
	var packed bytes.Buffer
	z, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := z.Write(page); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	w.bytes += int64(len(page))
	return w.frame(frameRows, packed.Bytes())
}

// end writes the last frame, with the counts and the digest of everything before it.
func (w *writer) end() error {
	raw, err := json.Marshal(end{Rows: w.rows, Bytes: w.bytes, SHA256: hex.EncodeToString(w.sum.Sum(nil))})
	if err != nil {
		return err
	}
	return w.frame(frameEnd, raw)
}
