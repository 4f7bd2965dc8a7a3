package check

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// usageSums maps a namespace to what its runs have consumed.
type usageSums map[uint32]*consumed

// consumed is what runs have consumed. unknown means that the last state of a run is not known.
type consumed struct {
	tokens, cost int64
	unknown      bool
}

// add adds what a run has consumed, as the operator's accounts count it. st is the last state of the run, or nil if it
// is not known.
func (u usageSums) add(ns uint32, st *machine.State) {
	if u[ns] == nil {
		u[ns] = &consumed{}
	}
	if st == nil {
		u[ns].unknown = true
		return
	}
	if _, counted := st.AccountLabels(); !counted {
		return
	}
	tokens, cost := rules.SettledInAccounts(st)
	u[ns].tokens, u[ns].cost = rules.AddCapped(u[ns].tokens, tokens), rules.AddCapped(u[ns].cost, cost)
}

// differs returns how the sums of a namespace's rollups differ from what its runs have consumed, or "". deleted means that
// some runs were deleted, so that the rollups may have more.
func (c *consumed) differs(tokens, cost int64, deleted bool) string {
	least, most := min(c.tokens, c.cost, tokens, cost), max(c.tokens, c.cost, tokens, cost)
	switch {
	case c.unknown, least < 0, most == math.MaxInt64:
		return ""
	case tokens == c.tokens && cost == c.cost, deleted && tokens >= c.tokens && cost >= c.cost:
		return ""
	}
	return fmt.Sprintf("the rollups have %d tokens and %d micro-dollars, the runs have consumed %d and %d", tokens, cost, c.tokens, c.cost)
}

// checkUsage checks that rollups of usage can be decoded. If they are complete, their sums must be what the runs have
// consumed, or at least that if runs were deleted.
func (c *Checker) checkUsage() error {
	sums, err := c.rolledUp(func(key []byte, err error) error {
		return &Fault{Namespace: nsOf(key), Row: layout.Kinds[layout.KindUsage].Row, Detail: err.Error()}
	})
	if err != nil {
		return err
	}
	ns, why, err := c.wrongUsage(sums)
	if err != nil || why == "" {
		return err
	}
	return &Fault{Namespace: ns, Row: layout.Kinds[layout.KindUsage].Row, Detail: why}
}

func nsOf(key []byte) uint32 {
	if len(key) < 5 {
		return 0
	}
	return binary.BigEndian.Uint32(key[1:])
}

// rolledUp returns the sums of all rollups of each namespace. It calls bad for a rollup that cannot be decoded.
func (c *Checker) rolledUp(bad func(key []byte, err error) error) (map[uint32]*machine.UsageSum, error) {
	sums := map[uint32]*machine.UsageSum{}
	err := c.Each([]byte{layout.KindUsage}, func(key, value []byte) error {
		if layout.IsUsageSince(key) {
			if _, err := codec.DecodeNumber(value); err != nil {
				return bad(key, err)
			}
			return nil
		}
		row, err := layout.ReadUsage(key, value)
		if err != nil {
			return bad(key, err)
		}
		c.report.Usage++
		if sums[row.Namespace] == nil {
			sums[row.Namespace] = &machine.UsageSum{}
		}
		sums[row.Namespace].Add(row.UsageSum)
		return nil
	})
	return sums, err
}

// wrongUsage returns the first namespace whose rollups are complete and not what its runs have consumed, and why.
func (c *Checker) wrongUsage(sums map[uint32]*machine.UsageSum) (uint32, string, error) {
	for ns := range sums {
		if c.usage[ns] == nil {
			c.usage[ns] = &consumed{}
		}
	}
	for ns, runs := range c.usage {
		sum := sums[ns]
		if sum == nil {
			sum = &machine.UsageSum{}
		}
		since, err := layout.UsageSince(c.Txn, ns)
		if err != nil {
			return 0, "", err
		}
		if !since.Complete {
			continue
		}
		deleted, err := c.hasDeleted(ns)
		if err != nil {
			return 0, "", err
		}
		if why := runs.differs(rules.AddCapped(sum.InputTokens, sum.OutputTokens), sum.CostMicro, deleted); why != "" {
			return ns, why, nil
		}
	}
	return 0, "", nil
}

// hasDeleted reports whether runs of the namespace were deleted, or are being deleted.
func (c *Checker) hasDeleted(ns uint32) (bool, error) {
	return c.hadMore[ns] || layout.AnyWith(c.Txn, layout.Prefix(nil, layout.KindDeleted, ns)), c.Txn.Err()
}

// endedState returns the stored state of a run that has ended, which is its last one. It returns nil for any other run, for an
// imported one, and if the state cannot be read.
func (r *repairer) endedState(run queueRun) *machine.State {
	value, err := layout.Get(r.Txn, layout.HeadKey(run.ns, run.run))
	if err != nil || value == nil {
		return nil
	}
	st, err := r.Txn.Head(value)
	if err != nil || !st.Status.Terminal() {
		return nil
	}
	return st
}

// rollups removes rollups of usage that cannot be decoded. If the sums of a namespace are then not what its runs have
// consumed, they count as complete only from the newest record on, because no row says on which day the difference was
// consumed.
func (r *repairer) rollups() error {
	wrong := map[uint32]bool{}
	sums, err := r.rolledUp(func(key []byte, _ error) error {
		wrong[nsOf(key)] = true
		return r.put(layout.Op{Key: key, Delete: true}, wasRemoved)
	})
	if err != nil {
		return err
	}
	for run := range r.broken {
		r.usage.add(run.ns, r.endedState(run))
	}
	for ns := range wrong {
		delete(r.usage, ns)
		delete(sums, ns)
	}
	for {
		ns, why, err := r.wrongUsage(sums)
		if err != nil {
			return err
		}
		if why == "" {
			break
		}
		wrong[ns] = true
		delete(r.usage, ns)
		delete(sums, ns)
	}
	for ns := range wrong {
		if err := r.put(layout.UsageSinceOp(ns, max(r.newest, 1)), wasChanged); err != nil {
			return err
		}
	}
	return nil
}
