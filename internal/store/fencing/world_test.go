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

// world is a database with a standby, in memory. It is a log of the changes to the row of one partition. Each
// change may store a group. The standby has the first changes of the log.
type world struct {
	// mu guards all following fields.
	mu   sync.Mutex
	dice *rand.Rand
	log  []record
	// replicated is the number of changes that the standby has. Unless lossy is set, the standby has every
	// acknowledged change.
	replicated int
	lossy      bool
	// calm means that no more faults happen.
	calm bool
}

// record is the row after a statement.
type record struct {
	state fencing.State
	// group is the group that the statement stored. "" means none.
	group string
}

const lease = 3 * time.Second

// randomBelow returns a random number below n.
func (w *world) randomBelow(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.IntN(n)
}

// randomDuration returns a random duration below d.
func (w *world) randomDuration(d time.Duration) time.Duration {
	return time.Duration(w.randomBelow(int(d)))
}

func (w *world) row() fencing.State {
	if len(w.log) == 0 {
		return fencing.State{}
	}
	return w.log[len(w.log)-1].state
}

// failover makes the standby the primary. It returns false if the standby had every change.
func (w *world) failover() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.replicated == len(w.log)
	w.log = w.log[:w.replicated]
	return !all
}

// stopFaults ends all faults.
func (w *world) stopFaults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// groups returns the stored groups, with their owners.
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

// client is the database as one owner sees it.
type client struct {
	world *world
	name  string
	// stopped is the time until which the process of the owner does nothing, in Unix nanoseconds.
	stopped atomic.Int64
	// kept has the epoch under which renewLease renews the lease. nil means that the owner renews the lease
	// itself.
	kept *atomic.Uint64
	// cutOff means that no statement arrives.
	cutOff atomic.Bool
}

// renewLease renews the lease until stop is called. It does nothing if the owner renews the lease itself.
func (c *client) renewLease() (stop func()) {
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

// renew sends a statement that renews the lease and stores no group.
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

// nap waits for a short time, or for as long as the process is stopped.
func (c *client) nap() {
	time.Sleep(c.world.randomDuration(20 * time.Millisecond))
	if left := time.Until(time.Unix(0, c.stopped.Load())); left > 0 {
		time.Sleep(left)
	}
}

// do executes a statement. If follows is set, the standby gets this change and all changes before it.
func (w *world) do(act func() (changed bool), follows bool) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = act()
	if follows {
		w.replicated = len(w.log)
	}
	return changed
}

// send executes a statement, or loses or delays it, and its answer may be lost. act reports whether it
// changed anything.
func (c *client) send(act func() (changed bool)) error {
	w := c.world
	c.nap()
	defer c.nap()
	fate := w.randomBelow(100)
	if w.isCalm() {
		fate = 99
	}
	switch {
	case fate < 4, c.cutOff.Load():
		return errNet
	case fate < 8:
		w.do(act, true)
		return errNet
	case fate < 12:
		// The statement is in a buffer on its way. Other statements may arrive before it.
		late := w.randomDuration(8 * time.Second)
		go func() {
			time.Sleep(late)
			w.do(act, false)
		}()
		time.Sleep(min(late, w.randomDuration(time.Second)))
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
	w.do(act, !w.lossy || w.randomBelow(4) == 0)
	return nil
}

// Acquire does what the SQL statement does.
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

// Commit does what the SQL statement does.
func (c *client) Commit(epoch, number uint64, group string) error {
	return c.fence(epoch, number, number-1, group)
}

// Renew does what the SQL statement does.
func (c *client) Renew(epoch, number uint64) error { return c.fence(epoch, number, number, "") }

// Release does what the SQL statement does.
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

// owners returns the owners in the order of their groups, once for each sequence of groups.
func owners(groups []record) (names []string) {
	for _, r := range groups {
		if len(names) == 0 || names[len(names)-1] != r.state.Owner {
			names = append(names, r.state.Owner)
		}
	}
	return names
}

func areDistinct(names []string) bool {
	sorted := slices.Sorted(slices.Values(names))
	return len(slices.Compact(sorted)) == len(names)
}
