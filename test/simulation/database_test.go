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

// onDatabase: of one seed in four a node keeps its store in a database. It is drawn apart, so
// that the plans of all seeds are what they were.
func (w *world) onDatabase(name string) bool {
	n := rand.New(rand.NewPCG(w.seed, 0xda7a)).IntN(8)
	return n < 2 && name == [2]string{"n0", "n1"}[n]
}

// url is where the node's database is.
func (n *node) url() string { return "postgres://" + n.name + ".db/pawl" }

// waits bound what a simulated server is waited for.
var waits = pg.Timeouts{Statement: 2 * time.Second, Read: 2 * time.Second, GracePeriod: time.Second, CloseTimeout: 2 * time.Second}

// dbLease is how long a node's store stays its own without a word of it.
const dbLease = 3 * time.Second

// engine opens the node's store in its database; nil: on its disk.
func (n *node) engine() func(store.Options) (engine.Engine, error) {
	if n.database == nil {
		return nil
	}
	return func(o store.Options) (engine.Engine, error) {
		e, err := pgengine.Open(pgengine.Config{
			URL: dsn.Of(n.url()), Address: n.name, Lease: dbLease, Logger: o.Logger, Timeouts: waits,
		})
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}

// away: the database was not there; nothing is said by that.
func away(err error) bool {
	if _, ok := errors.AsType[*fencing.AwayError](err); ok {
		return true // at the start, to whoever starts the process
	}
	refusal, ok := errors.AsType[*machine.Error](err)
	return ok && refusal.Reason == pgengine.Away
}

// befalls is what faults of a disk are for a node whose store is in a database; false: it is no
// such fault.
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

// breaks has something befall the next commit, or all of them for a while, also longer than a
// lease.
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
