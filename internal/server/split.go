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

// ErrErasable is the error of a split if the store has erasable runs. One file contains the keys of all
// erasable runs, so a namespace cannot take its keys to another partition.
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

// SplitPartitions moves each namespace of partition 0, except the default namespace, to another
// partition that has no store yet. It chooses the partition with the fewest namespaces. No other
// process may have the store open. All namespaces move in one transaction, so after an interruption
// either none or all have moved. The callback is called with the name of each step when the step
// starts. Errors: [ErrUnusable], [ErrErasable], a *[CheckFault].
func SplitPartitions(ctx context.Context, location Database, report func(what string)) (done SplitResult, err error) {
	plan, err := location.planSplit(ctx, func(d *pgengine.Database, _ splitPlan) error { return d.DB.Close() })
	if err != nil || len(plan.placements) == 0 {
		return done, err
	}
	data := Data{Database: location}
	report("check " + data.Location())
	before, err := Check(ctx, data)
	if err != nil {
		return done, err
	}
	report("move namespaces to partitions")
	plan, err = location.planSplit(ctx, func(d *pgengine.Database, plan splitPlan) error {
		return d.Split(ctx, plan.shares, []byte{layout.KindBackup})
	})
	if err != nil {
		return done, err
	}
	done.Placements = plan.placements
	report("check " + data.Location())
	if done.Report, err = Check(ctx, data); err == nil && done.Report != before {
		err = fmt.Errorf("%s is not what it was: %+v, and %+v", data.Location(), done.Report, before)
	}
	return done, err
}

// splitPlan describes a split of partition 0: the new partition of each namespace, and the key-value
// pairs that each of these partitions gets.
type splitPlan struct {
	placements map[string]int32
	shares     []pg.Share
}

// planSplit takes over partition 0 and makes the plan of the split. If the plan moves a namespace,
// planSplit calls do with the open database and the plan. do must close the database, but not the store
// of run keys.
func (d Database) planSplit(ctx context.Context, do func(*pgengine.Database, splitPlan) error) (plan splitPlan, err error) {
	url, err := d.reachable()
	if err != nil {
		return plan, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	e, err := d.part(0).open(ctx, url, preflight.Requirements{}, fmt.Sprintf("a spread, process %d", os.Getpid()), slog.New(slog.DiscardHandler))
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
		err = fmt.Errorf("%w: %w", ErrUnusable, d.explained(ctx, url, err))
	}
	return plan, err
}

// planOf makes the plan for splitting a store. This process must own partition 0.
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

// unerasable returns an error if the store contains keys of erasable runs.
func unerasable(e engine.Engine) error {
	return eachRow(e, layout.RunKeysKey, func(_, _ []byte) error { return fmt.Errorf("%w: %w", ErrUnusable, ErrErasable) })
}

// assignPartitions returns the new partitions of the namespaces names, which were in partition 0. Each
// moves to the partition with the fewest namespaces. If several have equally few, it moves to the one
// with the lowest number. full are the partitions that already contain a store. No namespace moves to
// these, because their stores have numbers and cursors of their own.
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

// prefixesOf returns the prefixes of the keys of all rows that belong to one namespace. Each prefix
// contains the number of the namespace.
func prefixesOf(number uint32) (prefixes [][]byte) {
	for kind := range layout.Kinds {
		if layout.Kinds[kind].Row != "" && kind != layout.KindPack {
			prefixes = append(prefixes, layout.Prefix(nil, byte(kind), number))
		}
	}
	return prefixes
}

// packsOf returns the keys of the bytes of all packs that are registered in a namespace. Runs of the
// namespace use only these packs.
func packsOf(e engine.Engine, number uint32) (keys [][]byte, err error) {
	err = eachRow(e, layout.Prefix(nil, layout.KindPackRef, number), func(_, value []byte) error {
		row, err := codec.DecodePackName(value)
		keys = append(keys, layout.PackKey(row.Digest))
		return err
	})
	return keys, err
}
