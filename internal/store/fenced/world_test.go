package fenced_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fenced"
)

// world is a database with a standby, in memory: a log of changes to one partition's row, each
// with a group or without, of which the standby has the first ones.
type world struct {
	dice *rand.Rand
	log  []record
	// there is how much of the log the standby has; what is acknowledged, it has, unless lossy.
	there int
	lossy bool
	// calm: from now on nothing goes wrong.
	calm bool
	// failovers are counted.
	failovers int
}

// record is the row as a statement left it.
type record struct {
	state fenced.State
	// group that it stored, "" = none.
	group string
}

const lease = 3 * time.Second

func (w *world) row() fenced.State {
	if len(w.log) == 0 {
		return fenced.State{}
	}
	return w.log[len(w.log)-1].state
}

// failover goes on with what the standby has.
func (w *world) failover() {
	w.log = w.log[:w.there]
	w.failovers++
}

// groups are those that are stored, by the one that stored each.
func (w *world) groups() (out []record) {
	for _, r := range w.log {
		if r.group != "" {
			out = append(out, r)
		}
	}
	return out
}

// client is the database as one owner has it.
type client struct {
	world *world
	name  string
	// stopped: its process does nothing until then.
	stopped time.Time
}

var (
	errNet    = errors.New("the connection is gone")
	errNotice = errors.New("a warning: it might not have been replicated")
)

// nap takes a moment, or as long as the process is stopped.
func (c *client) nap() {
	time.Sleep(time.Duration(c.world.dice.Int64N(int64(20 * time.Millisecond))))
	if left := time.Until(c.stopped); left > 0 {
		time.Sleep(left)
	}
}

// send has a statement happen, or not, or later, and its answer come, or not. do says whether
// it changed anything.
func (c *client) send(do func() (changed bool)) error {
	w := c.world
	c.nap()
	defer c.nap()
	fate := w.dice.IntN(100)
	if w.calm {
		fate = 99
	}
	switch {
	case fate < 4:
		return errNet
	case fate < 8:
		do()
		w.there = len(w.log)
		return errNet
	case fate < 12:
		// It is in a buffer on the way, and arrives when others have come meanwhile.
		late := time.Duration(w.dice.Int64N(int64(8 * time.Second)))
		go func() {
			time.Sleep(late)
			do()
		}()
		time.Sleep(min(late, time.Duration(w.dice.Int64N(int64(time.Second)))))
		return errNet
	case fate < 16 && do():
		// The wait for the standby was cancelled.
		return errNotice
	case fate < 18:
		return fmt.Errorf("no space: %w", errNet)
	}
	do()
	if !w.lossy || w.dice.IntN(4) == 0 {
		// The log is in order: with this, the standby has all that came before.
		w.there = len(w.log)
	}
	return nil
}

// Take is as in SQL.
func (c *client) Take(again bool) (st fenced.State, err error) {
	w := c.world
	err = c.send(func() bool {
		row := w.row()
		ours := row.Owner == c.name || !again && !row.Lease.After(time.Now())
		if ours {
			row.Epoch, row.Owner, row.Address, row.Lease = row.Epoch+1, c.name, c.name, time.Now().Add(lease)
			w.log = append(w.log, record{state: row})
		}
		st = row
		st.Ours, st.Left = ours, max(0, time.Until(row.Lease))
		return ours
	})
	return st, err
}

func (c *client) fence(epoch, number, before uint64, group string) error {
	fits := false
	w := c.world
	err := c.send(func() bool {
		row := w.row()
		if fits = row.Owner == c.name && row.Epoch == epoch && row.Commit == before; fits {
			row.Commit, row.Lease = number, time.Now().Add(lease)
			w.log = append(w.log, record{state: row, group: group})
		}
		return fits
	})
	if err == nil && !fits {
		return fenced.ErrNoFence
	}
	return err
}

// Commit is as in SQL.
func (c *client) Commit(epoch, number uint64, group string) error {
	return c.fence(epoch, number, number-1, group)
}

// Renew is as in SQL.
func (c *client) Renew(epoch, number uint64) error { return c.fence(epoch, number, number, "") }

// Release is as in SQL.
func (c *client) Release(epoch uint64) error {
	w := c.world
	return c.send(func() bool {
		row := w.row()
		if row.Owner != c.name || row.Epoch != epoch {
			return false
		}
		row.Owner, row.Lease = "", time.Time{}
		w.log = append(w.log, record{state: row})
		return true
	})
}

func (c *client) Close() {}

// owners are the names in the order in which they stored, each once for a run of groups.
func owners(groups []record) (names []string) {
	for _, r := range groups {
		if len(names) == 0 || names[len(names)-1] != r.state.Owner {
			names = append(names, r.state.Owner)
		}
	}
	return names
}

func distinct(names []string) bool {
	sorted := slices.Sorted(slices.Values(names))
	return len(slices.Compact(sorted)) == len(names)
}
