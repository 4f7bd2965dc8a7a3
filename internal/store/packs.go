package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// errStale: a row was changed between its reading and the commit.
var errStale = errors.New("a pack was registered at the same time")

// packRetries bounds how often a registration is read and judged anew.
const packRetries = 16

// PutPack stores a pack by digest and names it id@version. The same bytes again
// are the same answer. A taken name with other bytes is a *machine.Refusal
// PACK_VERSION_TAKEN unless put.Move.
func (s *Store) PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error) {
	if err := checkPack(&put.Row); err != nil {
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
	return machine.PackRow{}, &machine.Refusal{
		Code: machine.CodeAborted, Reason: "PACK_CONTENDED",
		Message: fmt.Sprintf("%s@%s was registered by others %d times in a row", put.Row.ID, put.Row.Version, packRetries),
	}
}

// checkPack refuses a row that does not hold what its digest says.
func checkPack(r *machine.PackRow) error {
	sum := sha256.Sum256(r.Canonical)
	if want := "sha256:" + hex.EncodeToString(sum[:]); r.Digest != want {
		return fmt.Errorf("pack %s@%s: digest is %q, its bytes have %q", r.ID, r.Version, r.Digest, want)
	}
	return nil
}

// encodePack judges the put by what is stored now, and expects it unchanged.
func (s *Store) encodePack(ns uint32, put machine.PackPut) (machine.PackRow, *Writes, error) {
	row, w := put.Row, &Writes{ns: ns, entry: -1}
	nameKey, refKey, bareKey := packKeys(ns, row.ID, row.Version, row.Digest)
	err := s.view(func(txn *badger.Txn) error {
		named, err := get(txn, nameKey)
		if err != nil {
			return err
		}
		known, err := get(txn, refKey)
		if err != nil {
			return err
		}
		bare, err := get(txn, bareKey)
		if err != nil {
			return err
		}
		w.expects = []expect{
			{key: nameKey, value: named, miss: errStale},
			{key: refKey, value: known, miss: errStale},
			{key: bareKey, value: bare, miss: errStale},
		}
		return w.pack(&row, &put, named, known, bare)
	})
	return row, w, err
}

// pack adds the rows that are missing or differ.
func (w *Writes) pack(row *machine.PackRow, put *machine.PackPut, named, known, bare []byte) error {
	nameKey, refKey, bareKey := w.expects[0].key, w.expects[1].key, w.expects[2].key
	if named != nil {
		old, err := codec.DecodePackName(named)
		if err != nil {
			return err
		}
		if old.Digest != row.Digest && !put.Move {
			return &machine.Refusal{
				Code: machine.CodeAlreadyExists, Reason: "PACK_VERSION_TAKEN", Field: "pack",
				Message: fmt.Sprintf("%s@%s is registered with digest %s", row.ID, row.Version, old.Digest),
			}
		}
		if old.Digest == row.Digest {
			row.RegisteredAt = old.RegisteredAt
		}
	}
	if value := codec.EncodePackName(row); !bytes.Equal(value, named) {
		w.ops = append(w.ops, Op{Key: nameKey, Value: value})
	}
	if known == nil {
		w.ops = append(w.ops,
			Op{Key: refKey, Value: codec.EncodePackName(row)},
			Op{Key: packKey(row.Digest), Value: codec.EncodePackBytes(row)})
	}
	if version := bareValue(row.Version); put.MakeDefault && !bytes.Equal(version, bare) {
		w.ops = append(w.ops, Op{Key: bareKey, Value: version})
		bare = version
	}
	row.Default = bytes.Equal(bare, bareValue(row.Version))
	return nil
}

func bareValue(version string) []byte { return append([]byte{codec.Format}, version...) }

func packKey(digest string) []byte { return append([]byte{kindPack}, digest...) }

func packNameKey(ns uint32, id, version string) []byte {
	return name(name(prefix(nil, kindPackName, ns), id), version)
}

func packRefKey(ns uint32, digest string) []byte { return name(prefix(nil, kindPackRef, ns), digest) }

func packBareKey(ns uint32, id string) []byte { return name(prefix(nil, kindPackBare, ns), id) }

func packKeys(ns uint32, id, version, digest string) (byName, ref, bare []byte) {
	return packNameKey(ns, id, version), packRefKey(ns, digest), packBareKey(ns, id)
}

// Pack resolves "id" (the version registered last with MakeDefault),
// "id@version" or "sha256:<hex>"; machine.ErrNoPack. A digest that no name
// points to any more is found as well: runs keep it.
func (s *Store) Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error) {
	var row machine.PackRow
	err := s.view(func(txn *badger.Txn) error {
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
		body, err := get(txn, packKey(row.Digest))
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

// PackBytes reads a pack by its digest alone, whichever namespaces know it;
// [machine.ErrNoPack].
func (s *Store) PackBytes(ctx context.Context, digest string) ([]byte, error) {
	row := machine.PackRow{Digest: digest}
	err := s.view(func(txn *badger.Txn) error {
		body, err := get(txn, packKey(digest))
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

// findPack returns the name row that a reference means, nil if there is none. An
// id may hold an @: every place where it could end is tried, the last first.
func findPack(txn *badger.Txn, ns uint32, ref string) ([]byte, error) {
	if value, err := get(txn, packRefKey(ns, ref)); err != nil || value != nil {
		return value, err
	}
	if version, err := get(txn, packBareKey(ns, ref)); err != nil || version != nil {
		if err != nil {
			return nil, err
		}
		return get(txn, packNameKey(ns, ref, string(version[1:])))
	}
	for at := strings.LastIndexByte(ref, '@'); at >= 0; at = strings.LastIndexByte(ref[:at], '@') {
		if value, err := get(txn, packNameKey(ns, ref[:at], ref[at+1:])); err != nil || value != nil {
			return value, err
		}
	}
	return nil, nil
}

// isDefault reports whether the bare id leads to exactly this row.
func isDefault(txn *badger.Txn, ns uint32, row *machine.PackRow) (bool, error) {
	version, err := get(txn, packBareKey(ns, row.ID))
	if err != nil || !bytes.Equal(version, bareValue(row.Version)) {
		return false, err
	}
	value, err := get(txn, packNameKey(ns, row.ID, row.Version))
	if err != nil || value == nil {
		return false, err
	}
	named, err := codec.DecodePackName(value)
	return named.Digest == row.Digest, err
}

// ListPacks lists the registered names by id and version, without their bytes
// (Canonical and Source are nil), after the given position ("" = from the start);
// it returns the position of the next page ("" = no more).
func (s *Store) ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error) {
	if limit <= 0 {
		limit = listDefault
	}
	limit = min(limit, listMost)
	position, err := base64.RawURLEncoding.DecodeString(after)
	if err != nil {
		return nil, "", &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "BAD_PAGE_TOKEN", Field: "page_token", Message: "not a position that a list returned",
		}
	}
	var out []machine.PackRow
	next := ""
	p := prefix(nil, kindPackName, ns)
	err = s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: p})
		defer it.Close()
		for it.Seek(append(bytes.Clone(p), position...)); has(it, p) && ctx.Err() == nil; it.Next() {
			if len(out) == limit {
				next = base64.RawURLEncoding.EncodeToString(it.Item().Key()[len(p):])
				return nil
			}
			value, err := copyOf(it.Item())
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
