package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
)

// first is the default namespace. It is the only namespace whose name determines its partition.
const first = "default"

// Assign returns the partitions of namespaces. A namespace that already has a partition keeps it. The
// default namespace, and every namespace that the store of partition 0 contains, gets partition 0.
// Every other namespace gets the partition other than 0 that has the fewest namespaces. If several
// partitions have equally few, it gets the one with the lowest number. A repeated name counts once.
func Assign(placed map[string]int32, names []string, stored func(name string) bool) map[string]int32 {
	var counts [pg.Partitions]int
	for _, p := range placed {
		counts[p]++
	}
	at := make(map[string]int32, len(names))
	for _, name := range names {
		p, known := placed[name]
		if !known {
			p, known = at[name]
		}
		if !known {
			if name != first && !stored(name) {
				p = fewest(counts)
			}
			counts[p]++
		}
		at[name] = p
	}
	return at
}

// fewest returns the partition other than 0 that has the fewest namespaces.
func fewest(counts [pg.Partitions]int) int32 {
	best := 1
	for p := range counts {
		if p > 0 && counts[p] < counts[best] {
			best = p
		}
	}
	return int32(best)
}

// placementTimeout limits one attempt to assign partitions to namespaces. It allows for other nodes
// that do the same, because nodes often start at the same time.
const placementTimeout = 10 * time.Second

// Place returns the partition of each namespace. A namespace without a partition gets one permanently.
// If a sidecar without a cluster has stored a namespace in partition 0, key returns the key of this
// namespace in the store of the partition. Place creates the partitions if necessary. Errors:
// *[preflight.Error]. If there is an error, the namespaces may or may not have been placed.
func (r *Membership) Place(ctx context.Context, names []string, key func(name string) []byte) (at map[string]int32, err error) {
	talk := r.cfg.Pool.SerialConn() // beats do not wait for it
	defer talk.Close()
	err = r.exec(ctx, talk, placementTimeout, func(conn *pgx.Conn) error {
		p := placement{text: r.text, conn: conn}
		at, err = p.place(names, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return at, nil
}

// Placed returns the partition of each namespace. It uses the connection of the heartbeats.
func (r *Membership) Placed(ctx context.Context) (at map[string]int32, err error) {
	err = r.exec(ctx, r.conn, r.cfg.Wait, func(conn *pgx.Conn) (err error) {
		at, err = placement{text: r.text, conn: conn}.placed()
		return err
	})
	return at, err
}

// placement is one transaction. If there was an error, its connection must not be used again.
type placement struct {
	text statements
	conn *pgx.Conn
}

func (p placement) place(names []string, key func(name string) []byte) (map[string]int32, error) {
	for _, text := range []string{
		"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
		"SET LOCAL lock_timeout = '" + locked(placementTimeout) + "'",
		"SET LOCAL client_min_messages = 'warning'",
		p.text.lock,
	} {
		if err := p.do(text); err != nil {
			return nil, err
		}
	}
	placed, err := p.placed()
	if err != nil {
		return nil, err
	}
	stored, err := p.stored(names, key)
	if err != nil {
		return nil, err
	}
	at := Assign(placed, names, func(name string) bool { return stored[name] })
	return at, p.keep(at)
}

// do executes a statement that returns no rows.
func (p placement) do(text string, args ...any) error {
	_, err := p.conn.Exec(context.Background(), text, append([]any{pgx.QueryExecModeExec}, args...)...)
	return err
}

// placed returns the partitions of all namespaces that have one.
func (p placement) placed() (map[string]int32, error) {
	placed := make(map[string]int32)
	rows, err := p.conn.Query(context.Background(), p.text.placed, pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	var name string
	var part int32
	_, err = pgx.ForEachRow(rows, []any{&name, &part}, func() error {
		if part < 0 || part >= pg.Partitions {
			return fmt.Errorf("namespace %q is in partition %d: there are 0 to %d", name, part, pg.Partitions-1)
		}
		placed[name] = part
		return nil
	})
	return placed, err
}

// stored returns which of the namespaces the store of partition 0 contains.
func (p placement) stored(names []string, key func(name string) []byte) (map[string]bool, error) {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = key(name)
	}
	stored := make(map[string]bool)
	rows, err := p.conn.Query(context.Background(), p.text.stored, pgx.QueryExecModeExec, names, keys)
	if err != nil {
		return nil, err
	}
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name}, func() error {
		stored[name] = true
		return nil
	})
	return stored, err
}

// keep creates the partitions, stores the partitions of the namespaces, and commits.
func (p placement) keep(at map[string]int32) error {
	names := slices.Sorted(maps.Keys(at))
	parts := make([]int32, len(names))
	for i, name := range names {
		parts[i] = at[name]
	}
	if err := p.do(p.text.seed, parts, int32(layout.OldestFormat)); err != nil {
		return err
	}
	if err := p.do(p.text.place, names, parts); err != nil {
		return err
	}
	return p.do("COMMIT")
}
