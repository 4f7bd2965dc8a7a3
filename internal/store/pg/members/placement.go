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

// defaultNamespace is the default namespace, which is always in partition 0.
const defaultNamespace = "default"

// Assign returns the partitions of namespaces. A namespace that already has a partition keeps it. The
// default namespace gets partition 0, as does every namespace that the store of partition 0 already
// contains. All others get the partition other than 0 that has the fewest namespaces. If several
// partitions have equally few, the one with the lowest number is chosen. A repeated name counts once.
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
			if name != defaultNamespace && !stored(name) {
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

// placementTimeout limits one attempt to assign partitions to namespaces. It includes the wait for
// other nodes that do the same at the same time, for example when all of them start.
const placementTimeout = 10 * time.Second

// Place returns the partition of each namespace. A namespace without a partition gets one, which it
// keeps permanently. A namespace that a sidecar without a cluster has used is in partition 0; key
// returns the key of its row in that store. Place creates the partitions if necessary. Errors:
// *[preflight.Error]. After an error, the namespaces may or may not have been placed.
func (r *Membership) Place(ctx context.Context, names []string, key func(name string) []byte) (at map[string]int32, err error) {
	talk := r.cfg.Pool.SerialConn() // a connection of its own, so that heartbeats do not wait
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

// Placements returns the partition of each namespace. It uses the same connection as the heartbeats.
func (r *Membership) Placements(ctx context.Context) (at map[string]int32, err error) {
	err = r.exec(ctx, r.conn, r.cfg.Wait, func(conn *pgx.Conn) (err error) {
		at, err = placement{text: r.text, conn: conn}.placements()
		return err
	})
	return at, err
}

// placement is one transaction that places namespaces. After an error, its connection must not be used
// again.
type placement struct {
	text statements
	conn *pgx.Conn
}

// place assigns partitions to the namespaces names in one transaction, and returns the partition of each. No other
// process can do this at the same time.
func (p placement) place(names []string, key func(name string) []byte) (map[string]int32, error) {
	for _, text := range []string{
		"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
		"SET LOCAL lock_timeout = '" + locked(placementTimeout) + "'",
		"SET LOCAL client_min_messages = 'warning'",
		p.text.lock,
	} {
		if err := p.exec(text); err != nil {
			return nil, err
		}
	}
	placed, err := p.placements()
	if err != nil {
		return nil, err
	}
	stored, err := p.storedNamespaces(names, key)
	if err != nil {
		return nil, err
	}
	at := Assign(placed, names, func(name string) bool { return stored[name] })
	return at, p.save(at)
}

// exec executes a statement that returns no rows.
func (p placement) exec(text string, args ...any) error {
	_, err := p.conn.Exec(context.Background(), text, append([]any{pgx.QueryExecModeExec}, args...)...)
	return err
}

// placements returns the partitions of all namespaces that have one.
func (p placement) placements() (map[string]int32, error) {
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

// storedNamespaces returns which of the namespaces the store of partition 0 already contains. It looks for the
// keys that the function key returns.
func (p placement) storedNamespaces(names []string, key func(name string) []byte) (map[string]bool, error) {
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

// save creates the partitions, stores the placement of the namespaces, and commits the transaction.
func (p placement) save(at map[string]int32) error {
	names := slices.Sorted(maps.Keys(at))
	parts := make([]int32, len(names))
	for i, name := range names {
		parts[i] = at[name]
	}
	if err := p.exec(p.text.seed, parts, int32(layout.OldestFormat)); err != nil {
		return err
	}
	if err := p.exec(p.text.place, names, parts); err != nil {
		return err
	}
	return p.exec("COMMIT")
}
