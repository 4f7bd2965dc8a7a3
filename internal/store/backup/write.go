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

// The frames of a backup: one byte, the length in four, and so many bytes.
const (
	frameHeader = 'H'
	frameRows   = 'R'
	frameEnd    = 'E'
)

// Bounds of a frame: rows are gathered up to frameBytes before compression; what is read
// is refused above mostFrame.
const (
	frameBytes = 1 << 20
	mostFrame  = 64 << 20
)

// stable are the kinds of rows that are written once, or change and go only with their
// run or blob.
var stable = []byte{
	layout.KindHead, layout.KindEntry, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage,
	layout.KindRunID, layout.KindCallerID, layout.KindBlobRef, layout.KindCursor, layout.KindBlobPiece, layout.KindPack,
}

// carried: rows of the kind are in backups. The format's and the marks of backups are each
// store's own.
func carried(kind byte) bool {
	return layout.Kinds[kind].Row != "" && kind != layout.KindBackup
}

// end says what a backup had.
type end struct {
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// View reads the store at the timestamp of the backup.
type View func(read func(txn *layout.Txn) error) error

// Source is the store that is backed up, at one moment.
type Source struct {
	Format uint32
	Epoch  [16]byte
	// Group is the last commit that View shows.
	Group uint64
	View  View
	// Note stores marks.
	Note func(ctx context.Context, ops []layout.Op) error
}

// Take writes a backup: of what is new since the backup of the id after, or of everything
// for "". at is Unix nanoseconds. Errors: [ErrForeign], those of the source and of out.
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

// write writes a backup. It stores the mark before it writes the end, so that the store knows
// every complete backup; an interrupted backup removes no mark. Each read of the store is
// short, even if out is slow.
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

type writer struct {
	out   io.Writer
	sum   hash.Hash
	rows  int64
	bytes int64
}

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

func (w *writer) frame(kind byte, payload []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	to := io.MultiWriter(w.out, w.sum)
	if _, err := to.Write(head); err != nil {
		return err
	}
	_, err := to.Write(payload)
	return err
}

// kind writes the rows of a kind that are newer than a commit.
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

// page reads rows from a key on; next is where the following page begins, nil = at none.
func (w *writer) page(ctx context.Context, view View, from []byte, since uint64) (page, next []byte, err error) {
	kind := from[:1]
	err = view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: kind, Since: since})
		defer it.Close()
		for it.Seek(from); layout.Has(it, kind); it.Next() {
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

func (w *writer) end() error {
	raw, err := json.Marshal(end{Rows: w.rows, Bytes: w.bytes, SHA256: hex.EncodeToString(w.sum.Sum(nil))})
	if err != nil {
		return err
	}
	return w.frame(frameEnd, raw)
}
