package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
)

// PartError is an error of one partition of a store, which is not the first.
type PartError struct {
	Part int32
	Err  error
}

// Error returns a text that names the partition.
func (e *PartError) Error() string { return fmt.Sprintf("partition %d: %v", e.Part, e.Err) }

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

// PartOf returns the number of the partition that err names. It returns 0 for the first partition and
// for other errors.
func PartOf(err error) int32 {
	if of, ok := errors.AsType[*PartError](err); ok {
		return of.Part
	}
	return 0
}

// InPart adds the number of the partition to an error, except for the first partition, because most
// stores have only this one.
func InPart(part int32, err error) error {
	if err == nil || part == 0 {
		return err
	}
	return &PartError{Part: part, Err: err}
}

// PartsError means that a store with several partitions cannot be copied to a location that can contain
// only one.
type PartsError struct {
	// Location names the location that has several partitions. Parts are their numbers, sorted.
	Location string
	Parts    []int32
	// Advice says what to do instead.
	Advice string
}

// Error returns a text that names the partitions.
func (e *PartsError) Error() string {
	return fmt.Sprintf("%s has the partitions %s, whose numbers and cursors are not those of one store: %s", e.Location, listed(e.Parts), e.Advice)
}

// parts returns the location of each existing partition of a store, sorted by number. A store in a
// directory has exactly one partition. Errors: [ErrUnusable].
func (d Data) parts(ctx context.Context) ([]Data, error) {
	if d.Dir != "" {
		return []Data{d}, nil
	}
	numbers, err := d.Database.parts(ctx, preflight.Requirements{})
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 || d.Database.Only {
		// If the store does not exist, an error is returned later, when its partition is opened.
		return []Data{d}, d.Database.checkPartition(numbers)
	}
	parts := make([]Data, len(numbers))
	for i, number := range numbers {
		parts[i] = Data{Database: d.Database.part(number)}
	}
	return parts, nil
}

// checkPartition returns an error if the location names a partition that is not one of parts. If parts is empty,
// it returns nil.
func (d Database) checkPartition(parts []int32) error {
	if len(parts) == 0 || slices.Contains(parts, d.Part) {
		return nil
	}
	return fmt.Errorf("%w: PARTITION_NOT_FOUND: %s; there are the partitions %s", ErrUnusable, d, listed(parts))
}

// listed returns the numbers as text.
func listed(parts []int32) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = fmt.Sprint(part)
	}
	return strings.Join(names, ", ")
}

// eachPartition calls do for each partition of the store, one after the other. It stops at the first error,
// which names the partition.
func (d Data) eachPartition(ctx context.Context, do func(part Data) error) error {
	parts, err := d.parts(ctx)
	for i := 0; err == nil && i < len(parts); i++ {
		err = InPart(parts[i].Database.Part, marked(do(parts[i])))
	}
	return err
}

// parts returns the partitions that have rows, sorted by number. Errors: [ErrUnusable].
func (d Database) parts(ctx context.Context, want preflight.Requirements) (parts []int32, err error) {
	url, err := d.reachable()
	if err == nil {
		err = d.checkDurability(ctx, url, want, slog.New(slog.DiscardHandler))
	}
	if err == nil {
		parts, err = d.storedPartitions(ctx, url)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return parts, nil
}

func (d Database) storedPartitions(ctx context.Context, url dsn.URL) (parts []int32, err error) {
	via, err := pg.Connect(ctx, pg.Config{URL: url, Schema: d.Schema})
	if err == nil {
		defer via.Close()
		parts, err = via.Parts(ctx)
	}
	if err != nil {
		return nil, d.userError(err)
	}
	return parts, nil
}

// checkUndivided returns an error if the store in the database has partitions other than the first.
func (d Database) checkUndivided(ctx context.Context, want preflight.Requirements, advice string) error {
	parts, err := d.parts(ctx, want)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(parts, func(part int32) bool { return part != 0 }) {
		err = fmt.Errorf("%w: %w", ErrUnusable, &PartsError{Location: d.String(), Parts: parts, Advice: advice})
	}
	return err
}

// namespacesOf returns the numbers of the namespaces in a store, except the default namespace.
func namespacesOf(e engine.Engine) (map[string]uint32, error) {
	numbers := make(map[string]uint32)
	err := eachRow(e, layout.Prefix(nil, layout.KindNamespace, 0), func(key, value []byte) error {
		name, number, err := layout.ReadNamespace(key, value)
		numbers[name] = number
		return err
	})
	return numbers, err
}

// eachRow calls do for each row whose key has a prefix. No other process may write to the store.
func eachRow(e engine.Engine, prefix []byte, do func(key, value []byte) error) error {
	view := kv.On(e.View(e.LastKey()))
	defer view.Close()
	it := view.Scan(kv.Range{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		value, err := it.ValueCopy()
		if err == nil {
			err = do(it.KeyCopy(), value)
		}
		if err != nil {
			return err
		}
	}
	return view.Err()
}

// added returns the sums of the counts of a and b, which are reports of two partitions.
func added(a, b CheckReport) CheckReport {
	return CheckReport{
		Runs: a.Runs + b.Runs, Entries: a.Entries + b.Entries, Records: a.Records + b.Records, Checkpoints: a.Checkpoints + b.Checkpoints,
		Artifacts: a.Artifacts + b.Artifacts, Messages: a.Messages + b.Messages, IDs: a.IDs + b.IDs,
		Timers: a.Timers + b.Timers, Outbox: a.Outbox + b.Outbox, Ready: a.Ready + b.Ready, Indexes: a.Indexes + b.Indexes,
		Packs: a.Packs + b.Packs, Deleted: a.Deleted + b.Deleted, Erased: a.Erased + b.Erased, Accounts: a.Accounts + b.Accounts, Keys: a.Keys + b.Keys, Usage: a.Usage + b.Usage,
	}
}
