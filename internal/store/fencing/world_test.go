package fencing_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
)

// world is a database with a standby, in memory: a log of changes to one partition's row, each
// with a group or without, of which the standby has the first ones.
type world struct {
	// mu guards all that follows, for whoever acts in it.
	mu   sync.Mutex
	dice *rand.Rand
	log  []record
	// there is how much of the log the standby has; what is acknowledged, it has, unless lossy.
	there int
	lossy bool
	// calm: from now on nothing goes wrong.
	calm bool
}

// record is the row as a statement left it.
type record struct {
	state fencing.State
	// group that it stored, "" = none.
	group string
}

const lease = 3 * time.Second

// roll is a number below n.
func (w *world) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.IntN(n)
}

// within is a time below d.
func (w *world) within(d time.Duration) time.Duration { return time.Duration(w.roll(int(d))) }

func (w *world) row() fencing.State {
	if len(w.log) == 0 {
		return fencing.State{}
	}
	return w.log[len(w.log)-1].state
}

// failover goes on with what the standby has; false: it has everything.
func (w *world) failover() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.there == len(w.log)
	w.log = w.log[:w.there]
	return !all
}

// calms has nothing go wrong from now on.
func (w *world) calms() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// groups are those that are stored, by the one that stored each.
func (w *world) groups() (out []record) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
	// stopped: its process does nothing until then, Unix nanoseconds.
	stopped atomic.Int64
	// kept, unless nil, has the epoch under which somebody else renews the lease.
	kept *atomic.Uint64
	// away: nothing arrives.
	away atomic.Bool
}

// keep renews the lease, if that is not the owner's doing, until stop is called.
func (c *client) keep() (stop func()) {
	ended := make(chan struct{})
	if c.kept == nil {
		return func() {}
	}
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(lease / 3):
				c.renew()
			}
		}
	}()
	return func() { close(ended) }
}

// renew is a statement apart, which knows no group.
func (c *client) renew() {
	epoch := c.kept.Load()
	_ = c.send(func() bool {
		row := c.world.row()
		if epoch == 0 || row.Owner != c.name || row.Epoch != epoch {
			return false
		}
		row.Lease = time.Now().Add(lease)
		c.world.log = append(c.world.log, record{state: row})
		return true
	})
}

var (
	errNet    = errors.New("the connection is gone")
	errNotice = errors.New("a warning: it might not have been replicated")
)

// nap takes a moment, or as long as the process is stopped.
func (c *client) nap() {
	time.Sleep(c.world.within(20 * time.Millisecond))
	if left := time.Until(time.Unix(0, c.stopped.Load())); left > 0 {
		time.Sleep(left)
	}
}

// do has a statement happen; the standby has it, and as the log is in order all that came
// before, if it follows.
func (w *world) do(act func() (changed bool), follows bool) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = act()
	if follows {
		w.there = len(w.log)
	}
	return changed
}

// send has a statement happen, or not, or later, and its answer come, or not. act says whether
// it changed anything.
func (c *client) send(act func() (changed bool)) error {
	w := c.world
	c.nap()
	defer c.nap()
	fate := w.roll(100)
	if w.isCalm() {
		fate = 99
	}
	switch {
	case fate < 4, c.away.Load():
		return errNet
	case fate < 8:
		w.do(act, true)
		return errNet
	case fate < 12:
		// It is in a buffer on the way, and arrives when others have come meanwhile.
		late := w.within(8 * time.Second)
		go func() {
			time.Sleep(late)
			w.do(act, false)
		}()
		time.Sleep(min(late, w.within(time.Second)))
		return errNet
	case fate < 16:
		// The wait for the standby is cancelled.
		if w.do(act, false) {
			return errNotice
		}
		return nil
	case fate < 18:
		return fmt.Errorf("no space: %w", errNet)
	}
	w.do(act, !w.lossy || w.roll(4) == 0)
	return nil
}

// Take is as in SQL.
func (c *client) Acquire(again bool) (fencing.State, error) {
	w, answer := c.world, make(chan fencing.State, 1)
	err := c.send(func() bool {
		row := w.row()
		ours := row.Owner == c.name || !again && !row.Lease.After(time.Now())
		if ours {
			row.Epoch, row.Owner, row.Address, row.Lease = row.Epoch+1, c.name, c.name, time.Now().Add(lease)
			w.log = append(w.log, record{state: row})
		}
		st := row
		st.Ours, st.Left = ours, max(0, time.Until(row.Lease))
		answer <- st
		return ours
	})
	if err != nil {
		return fencing.State{}, err
	}
	return <-answer, nil
}

func (c *client) fence(epoch, number, before uint64, group string) error {
	w, answer := c.world, make(chan bool, 1)
	err := c.send(func() bool {
		row := w.row()
		fits := row.Owner == c.name && row.Epoch == epoch && row.Commit == before
		if fits {
			row.Commit, row.Lease = number, time.Now().Add(lease)
			w.log = append(w.log, record{state: row, group: group})
		}
		answer <- fits
		return fits
	})
	if err == nil && !<-answer {
		return fencing.ErrNoFence
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
