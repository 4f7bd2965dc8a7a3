package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
)

// ErrErasable is the error for a store that has erasable runs. One file contains the keys of all such
// runs, so a namespace cannot take its keys to another partition.
var ErrErasable = errors.New("RUN_KEYS_TOGETHER: runs can be erased here, and the keys of all of them are together: their namespaces stay in partition 0")

// SplitResult is the result of [SplitPartitions].
type SplitResult struct {
	// Placements maps each moved namespace to its new partition. If it is empty, no namespace was
	// moved, and the store was not checked.
	Placements map[string]int32
	// Report contains the counts of the check of all partitions. They are equal before and after the
	// move.
	Report CheckReport
}

// SplitPartitions moves each namespace of partition 0, except the default namespace, to an empty
// partition. It chooses the partition with the fewest namespaces. No other process may have the store
// open. All namespaces move in one transaction. If it is interrupted, either none or all of them have
// moved. The callback is called at the start of each step with the name of the step. Errors:
// [ErrUnusable], [ErrErasable], a *[CheckFault].
func SplitPartitions(ctx context.Context, where Database, told func(what string)) (done SplitResult, err error) {
	plan, err := where.planned(ctx, func(d *pgengine.Database, _ splitPlan) error { return d.DB.Close() })
	if err != nil || len(plan.placements) == 0 {
		return done, err
	}
	data := Data{Database: where}
	told("check " + data.Where())
	before, err := Check(ctx, data)
	if err != nil {
		return done, err
	}
	told("move namespaces to partitions")
	plan, err = where.planned(ctx, func(d *pgengine.Database, plan splitPlan) error {
		return d.Split(ctx, plan.shares, []byte{layout.KindBackup})
	})
	if err != nil {
		return done, err
	}
	done.Placements = plan.placements
	told("check " + data.Where())
	if done.Report, err = Check(ctx, data); err == nil && done.Report != before {
		err = fmt.Errorf("%s is not what it was: %+v, and %+v", data.Where(), done.Report, before)
	}
	return done, err
}

// splitPlan describes to which partitions the namespaces move, and which pairs move with them.
type splitPlan struct {
	placements map[string]int32
	shares     []pg.Share
}

// planned acquires partition 0. If there is a namespace to move, it calls do. do closes the database,
// but not the keys of runs.
func (d Database) planned(ctx context.Context, do func(*pgengine.Database, splitPlan) error) (plan splitPlan, err error) {
	url, err := d.reachable()
	if err != nil {
		return plan, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	e, err := d.part(0).open(ctx, url, preflight.Wanted{}, fmt.Sprintf("a spread, process %d", os.Getpid()), slog.New(slog.DiscardHandler))
	if err != nil {
		return plan, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	defer func() { err = errors.Join(err, e.Keys().Close()) }()
	if plan, err = planOf(ctx, e); err != nil || len(plan.shares) == 0 {
		return plan, errors.Join(err, e.DB.Close())
	}
	err = do(e, plan)
	if alive, ok := errors.AsType[*pg.AliveError](err); ok {
		err = &preflight.Error{Reason: preflight.SchemaOwned, Where: d.URL.String(), Err: err, Message: alive.Error()}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnusable, d.userError(err))
	}
	return plan, err
}

// planOf makes the plan for a store. This process must own the store.
func planOf(ctx context.Context, d *pgengine.Database) (plan splitPlan, err error) {
	numbers, err := namespacesOf(d)
	if err != nil || len(numbers) == 0 {
		return plan, err
	}
	if err := unerasable(d); err != nil {
		return plan, err
	}
	placed, full, err := d.Placements(ctx)
	if err != nil {
		return plan, err
	}
	if plan.placements, err = assignPartitions(slices.Sorted(maps.Keys(numbers)), placed, full); err != nil {
		return plan, err
	}
	byPart := map[int32]*pg.Share{}
	for name, part := range plan.placements {
		share := cmp.Or(byPart[part], &pg.Share{Part: part, Copied: [][]byte{layout.FormatKey, layout.GroupKey}})
		byPart[part] = share
		share.Names = append(share.Names, name)
		share.Moved = append(append(share.Moved, layout.NamespaceKey(name)), prefixesOf(numbers[name])...)
		packs, err := packsOf(d, numbers[name])
		if err != nil {
			return plan, err
		}
		share.Copied = append(share.Copied, packs...)
	}
	for _, part := range slices.Sorted(maps.Keys(byPart)) {
		plan.shares = append(plan.shares, *byPart[part])
	}
	return plan, nil
}

// unerasable refuses a store with keys of runs.
func unerasable(e engine.Engine) error {
	return eachRow(e, layout.RunKeysKey, func(_, _ []byte) error { return fmt.Errorf("%w: %w", ErrUnusable, ErrErasable) })
}

// assignPartitions returns the new partitions of the namespaces that were in partition 0. A namespace
// moves to the partition with the fewest namespaces. If several have equally few, it moves to the one
// with the lowest number. It never moves to partition 0, or to a partition that already contains a
// store, because such a store has numbers and cursors of its own.
func assignPartitions(names []string, placed map[string]int32, full []int32) (map[string]int32, error) {
	var counts [pg.Partitions]int
	for name, part := range placed {
		if !slices.Contains(names, name) {
			counts[part]++
		}
	}
	free := make([]int32, 0, pg.Partitions)
	for part := int32(1); part < pg.Partitions; part++ {
		if !slices.Contains(full, part) {
			free = append(free, part)
		}
	}
	if len(free) == 0 {
		return nil, fmt.Errorf("%w: all partitions have a store already, of which there are %d", ErrUnusable, pg.Partitions)
	}
	places := make(map[string]int32, len(names))
	for _, name := range names {
		best := slices.MinFunc(free, func(a, b int32) int { return cmp.Compare(counts[a], counts[b]) })
		places[name] = best
		counts[best]++
	}
	return places, nil
}

// prefixesOf returns the prefixes of the keys of a namespace. Keys that do not belong to a namespace
// have no number, or another number.
func prefixesOf(number uint32) (prefixes [][]byte) {
	for kind := range layout.Kinds {
		if layout.Kinds[kind].Row != "" && kind != layout.KindPack {
			prefixes = append(prefixes, layout.Prefix(nil, byte(kind), number))
		}
	}
	return prefixes
}

// packsOf returns the keys of the packs that a namespace knows. These are the packs of all its runs.
func packsOf(e engine.Engine, number uint32) (keys [][]byte, err error) {
	err = eachRow(e, layout.Prefix(nil, layout.KindPackRef, number), func(_, value []byte) error {
		row, err := codec.DecodePackName(value)
		keys = append(keys, layout.PackKey(row.Digest))
		return err
	})
	return keys, err
}
