package testkit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func (d *disk) packsOf(ns uint32) *packRows {
	rows := d.packs[ns]
	if rows == nil {
		rows = &packRows{
			byDigest: make(map[string]machine.PackRow), names: make(map[string]string), defaults: make(map[string]string),
		}
		d.packs[ns] = rows
	}
	return rows
}

// PutPack registers a pack.
func (d *disk) PutPack(_ context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := d.packsOf(ns)
	name := put.Row.ID + "@" + put.Row.Version
	if taken, ok := rows.names[name]; ok && taken != put.Row.Digest && !put.Move {
		return machine.PackRow{}, &machine.Error{
			Code: machine.CodeAlreadyExists, Reason: "PACK_VERSION_TAKEN", Field: "document",
			Message: fmt.Sprintf("%s is %s", name, taken),
		}
	}
	if _, ok := rows.byDigest[put.Row.Digest]; !ok {
		rows.byDigest[put.Row.Digest] = put.Row
	}
	rows.names[name] = put.Row.Digest
	if put.MakeDefault {
		rows.defaults[put.Row.ID] = put.Row.Version
	}
	return rows.row(put.Row.Digest), nil
}

func (p *packRows) row(digest string) machine.PackRow {
	row := p.byDigest[digest]
	row.Default = p.defaults[row.ID] == row.Version && p.names[row.ID+"@"+row.Version] == digest
	return row
}

// Pack resolves "id", "id@version" or a digest.
func (d *disk) Pack(_ context.Context, ns uint32, ref string) (machine.PackRow, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := d.packsOf(ns)
	digest := ref
	if !strings.HasPrefix(ref, "sha256:") {
		name := ref
		if !strings.Contains(ref, "@") {
			name = ref + "@" + rows.defaults[ref]
		}
		digest = rows.names[name]
	}
	if _, ok := rows.byDigest[digest]; !ok {
		return machine.PackRow{}, machine.ErrNoPack
	}
	return rows.row(digest), nil
}

// ListPacks orders by id and version.
func (d *disk) ListPacks(_ context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := d.packsOf(ns)
	var names []string
	for name := range rows.names {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	next := ""
	if len(names) > limit {
		names = names[:limit]
		next = names[limit-1]
	}
	packs := make([]machine.PackRow, len(names))
	for i, name := range names {
		packs[i] = rows.row(rows.names[name])
	}
	return packs, next, nil
}
