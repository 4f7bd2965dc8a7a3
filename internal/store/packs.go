package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// errStale means that another registration changed a row of the pack between the read and the commit.
var errStale = errors.New("a pack was registered at the same time")

// packRetries is the number of attempts to register a pack. An attempt fails if another registration
// changes the same rows in the meantime.
const packRetries = 16

// PutPack stores a pack under its digest and gives it the name id@version. If the same bytes are registered
// again, it returns the same row. If the name already belongs to other bytes, the error is a *machine.Error
// PACK_VERSION_TAKEN, unless put.Move is set. If other registrations change the same rows packRetries times in
// a row, it is PACK_CONTENDED.
func (s *Store) PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error) {
	if err := layout.CheckPack(&put.Row); err != nil {
		return machine.PackRow{}, err
	}
	for range packRetries {
		row, w, err := s.encodePack(ns, put)
		if err != nil {
			return machine.PackRow{}, err
		}
		if len(w.ops) == 0 {
			return row, ctx.Err()
		}
		err = s.write(ctx, w)
		if err == nil {
			return row, nil
		}
		if !errors.Is(err, errStale) {
			return machine.PackRow{}, err
		}
	}
	return machine.PackRow{}, &machine.Error{
		Code: machine.CodeAborted, Reason: "PACK_CONTENDED",
		Message: fmt.Sprintf("%s@%s was registered by others %d times in a row", put.Row.ID, put.Row.Version, packRetries),
	}
}

// encodePack computes the row of a pack and the writes that register it. The writes have the
// precondition that the pack's stored rows are still those that encodePack has read.
func (s *Store) encodePack(ns uint32, put machine.PackPut) (machine.PackRow, *Writes, error) {
	row, w := put.Row, &Writes{ns: ns, entry: -1}
	nameKey, refKey, bareKey := layout.PackKeys(ns, row.ID, row.Version, row.Digest)
	err := s.view(func(txn *layout.Txn) error {
		named, err := layout.Get(txn, nameKey)
		if err != nil {
			return err
		}
		known, err := layout.Get(txn, refKey)
		if err != nil {
			return err
		}
		bare, err := layout.Get(txn, bareKey)
		if err != nil {
			return err
		}
		w.expects = []expect{
			{key: nameKey, value: named, err: errStale},
			{key: refKey, value: known, err: errStale},
			{key: bareKey, value: bare, err: errStale},
		}
		return w.pack(&row, &put, named, known, bare)
	})
	return row, w, err
}

// pack adds the ops that register a pack. named, known and bare are the values of its stored rows. A
// row that already has the right value gets no op.
func (w *Writes) pack(row *machine.PackRow, put *machine.PackPut, named, known, bare []byte) error {
	nameKey, refKey, bareKey := w.expects[0].key, w.expects[1].key, w.expects[2].key
	if named != nil {
		old, err := codec.DecodePackName(named)
		if err != nil {
			return err
		}
		if old.Digest != row.Digest && !put.Move {
			return &machine.Error{
				Code: machine.CodeAlreadyExists, Reason: "PACK_VERSION_TAKEN", Field: "pack",
				Message: fmt.Sprintf("%s@%s is registered with another content, digest %s: give the changed pack a new version", row.ID, row.Version, old.Digest),
			}
		}
		if old.Digest == row.Digest {
			row.RegisteredAt = old.RegisteredAt
		}
	}
	if value := codec.EncodePackName(row); !bytes.Equal(value, named) {
		w.ops = append(w.ops, layout.Op{Key: nameKey, Value: value})
	}
	if known == nil {
		w.ops = append(w.ops,
			layout.Op{Key: refKey, Value: codec.EncodePackName(row)},
			layout.Op{Key: layout.PackKey(row.Digest), Value: codec.EncodePackBytes(row)})
	}
	if version := layout.BareValue(row.Version); put.MakeDefault && !bytes.Equal(version, bare) {
		w.ops = append(w.ops, layout.Op{Key: bareKey, Value: version})
		bare = version
	}
	row.Default = bytes.Equal(bare, layout.BareValue(row.Version))
	return nil
}

// Pack finds a pack by a reference: "id" (the version that was last registered with MakeDefault),
// "id@version" or "sha256:<hex>". If no pack matches, the error is machine.ErrNoPack. A digest is found
// even if no name refers to it any more, because runs may still use it.
func (s *Store) Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error) {
	var row machine.PackRow
	err := s.viewIn(ctx, func(txn *layout.Txn) error {
		value, err := findPack(txn, ns, ref)
		if err != nil {
			return err
		}
		if value == nil {
			return machine.ErrNoPack
		}
		if row, err = codec.DecodePackName(value); err != nil {
			return err
		}
		if row.Default, err = isDefault(txn, ns, &row); err != nil {
			return err
		}
		body, err := layout.Get(txn, layout.PackKey(row.Digest))
		if err != nil {
			return err
		}
		if body == nil {
			return fmt.Errorf("bytes of %s are missing", row.Digest)
		}
		return codec.DecodePackBytes(&row, body)
	})
	if err != nil {
		return machine.PackRow{}, fmt.Errorf("pack %q: %w", ref, err)
	}
	return row, ctx.Err()
}

// PackBytes returns the bytes of a pack by its digest, in any namespace. If no pack matches, the
// error is [machine.ErrNoPack].
func (s *Store) PackBytes(ctx context.Context, digest string) ([]byte, error) {
	row := machine.PackRow{Digest: digest}
	err := s.view(func(txn *layout.Txn) error {
		body, err := layout.Get(txn, layout.PackKey(digest))
		if err != nil {
			return err
		}
		if body == nil {
			return machine.ErrNoPack
		}
		return codec.DecodePackBytes(&row, body)
	})
	if err != nil {
		return nil, fmt.Errorf("pack %q: %w", digest, err)
	}
	return row.Canonical, ctx.Err()
}

// findPack returns the value of the row that a pack reference means, or nil if there is none. The
// reference is a digest, an id, or id@version. An id may contain "@", so findPack tries every "@" as
// the end of the id, beginning with the last one.
func findPack(txn *layout.Txn, ns uint32, ref string) ([]byte, error) {
	if value, err := layout.Get(txn, layout.PackRefKey(ns, ref)); err != nil || value != nil {
		return value, err
	}
	if version, err := layout.Get(txn, layout.PackBareKey(ns, ref)); err != nil || version != nil {
		if err != nil {
			return nil, err
		}
		return layout.Get(txn, layout.PackNameKey(ns, ref, string(version[1:])))
	}
	for at := strings.LastIndexByte(ref, '@'); at >= 0; at = strings.LastIndexByte(ref[:at], '@') {
		if value, err := layout.Get(txn, layout.PackNameKey(ns, ref[:at], ref[at+1:])); err != nil || value != nil {
			return value, err
		}
	}
	return nil, nil
}

// isDefault reports whether a reference to the pack's id without a version means the version in this row.
func isDefault(txn *layout.Txn, ns uint32, row *machine.PackRow) (bool, error) {
	version, err := layout.Get(txn, layout.PackBareKey(ns, row.ID))
	if err != nil || !bytes.Equal(version, layout.BareValue(row.Version)) {
		return false, err
	}
	value, err := layout.Get(txn, layout.PackNameKey(ns, row.ID, row.Version))
	if err != nil || value == nil {
		return false, err
	}
	named, err := codec.DecodePackName(value)
	return named.Digest == row.Digest, err
}

// ListPacks lists registered packs by id and version, without their bytes (Canonical and Source are
// nil). The page begins after the position after; "" means the start. The second result is the position
// of the next page; it is "" if no more packs follow.
func (s *Store) ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error) {
	if limit <= 0 {
		limit = listDefault
	}
	limit = min(limit, listMost)
	position, err := base64.RawURLEncoding.DecodeString(after)
	if err != nil {
		return nil, "", &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BAD_PAGE_TOKEN", Field: "page_token", Message: "not a position that a list returned",
		}
	}
	var out []machine.PackRow
	next := ""
	p := layout.Prefix(nil, layout.KindPackName, ns)
	err = s.view(func(txn *layout.Txn) error {
		iterator := txn.Scan(kv.Range{Prefix: p})
		defer iterator.Close()
		for iterator.Seek(append(bytes.Clone(p), position...)); layout.AtPrefix(iterator, p) && ctx.Err() == nil; iterator.Next() {
			if len(out) == limit {
				next = base64.RawURLEncoding.EncodeToString(iterator.Key()[len(p):])
				return nil
			}
			value, err := layout.CopyOf(iterator)
			if err != nil {
				return err
			}
			row, err := codec.DecodePackName(value)
			if err != nil {
				return err
			}
			if row.Default, err = isDefault(txn, ns, &row); err != nil {
				return err
			}
			out = append(out, row)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, "", fmt.Errorf("list packs: %w", err)
	}
	return out, next, nil
}
