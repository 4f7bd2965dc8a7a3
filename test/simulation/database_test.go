//go:build sim

package simulation

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
	"github.com/pawl-dev/pawl/test/simulation/pg"
)

// onDatabase reports whether a node keeps its store in a database, which is so in one of four seeds. It
// uses a separate random generator, so that the other plans stay the same.
func (w *world) onDatabase(name string) bool {
	n := rand.New(rand.NewPCG(w.seed, 0xda7a)).IntN(8)
	return n < 2 && name == [2]string{"n0", "n1"}[n]
}

// url returns the URL of the node's database.
func (n *node) url() string { return "postgres://" + n.name + ".db/pawl" }

// waits are the longest times that a node waits for a simulated server.
var waits = pg.Timeouts{Statement: 2 * time.Second, Read: 2 * time.Second, GracePeriod: time.Second, CloseTimeout: 2 * time.Second}

// dbLease is how long a node owns its store without renewing the lease.
const dbLease = 3 * time.Second

// engine returns a function that opens the node's store in its database. nil means that the store is on
// the node's disk.
func (n *node) engine() func(store.Options) (engine.Engine, error) {
	if n.database == nil {
		return nil
	}
	return func(o store.Options) (engine.Engine, error) {
		e, err := pgengine.Open(pgengine.Config{
			URL: dsn.Parse(n.url()), Address: n.name, Lease: dbLease, Logger: o.Logger, Timeouts: waits,
		})
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}

// away reports whether the database was unreachable. Such an error proves nothing about the call.
func away(err error) bool {
	if _, ok := errors.AsType[*fencing.AwayError](err); ok {
		return true // the process that starts gets this error
	}
	refusal, ok := errors.AsType[*machine.Error](err)
	return ok && refusal.Reason == pgengine.ReasonDatabaseAway
}

// `befalls` translates a fault of a disk to a fault of the database for a node whose store is in a
// database. It returns false if there is no such fault.
func (n *node) befalls(kind kind, dice *rand.Rand) bool {
	set := func(change func(f *pg.Faults)) { n.database.SetFaults(change) }
	some := time.Duration(dice.IntN(6000)) * time.Millisecond
	switch kind {
	case "full":
		set(func(f *pg.Faults) { f.Full = true })
		n.world.later(some/2, func() { set(func(f *pg.Faults) { f.Full = false }) })
	case "slow disk":
		set(func(f *pg.Faults) { f.Sync = 300 * time.Millisecond })
		n.world.later(2*time.Second, func() { set(func(f *pg.Faults) { f.Sync = n.world.knobs.sync }) })
	case "rot":
		n.database.Failover()
	case "broken disk":
		n.breaks(some, dice)
	case "power":
		n.database.Cut()
		return false
	default:
		return false
	}
	return true
}

// breaks makes the next commit fail, or all commits for a while, which may be longer than a lease.
func (n *node) breaks(some time.Duration, dice *rand.Rand) {
	next := pg.Fault(dice.IntN(int(pg.Straggler) + 1))
	n.world.note("%s: the database: fault %d of a commit, for %v", n.name, next, some)
	n.database.SetFaults(func(f *pg.Faults) { f.Next, f.Away = next, next == pg.None })
	n.world.later(some, func() {
		if dice.IntN(2) == 0 {
			n.database.Failover()
		}
		n.database.SetFaults(func(f *pg.Faults) { f.Next, f.Away = pg.None, false })
	})
}
