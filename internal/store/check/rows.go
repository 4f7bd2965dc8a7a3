package check

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// cursors checks that the cursors of every namespace begin at 1 and have no holes, that each cursor refers to
// an entry with this cursor or is a gap, and that there are as many cursors as entries.
func (c *Checker) cursors() error {
	next, gaps := make(map[uint32]uint64), make(map[uint32]uint64)
	err := c.Each([]byte{layout.KindCursor}, func(key, value []byte) error {
		if len(key) != 13 {
			return &Fault{Row: "cursor", Detail: fmt.Sprintf("malformed key %x", key)}
		}
		ns, last := binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
		places, err := codec.DecodeEntryRefs(value)
		if err != nil {
			return &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d: %v", last, err)}
		}
		if want := next[ns] + uint64(len(places)); last != want {
			return &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("the next row behind %d has %d entries and ends at %d", next[ns], len(places), last)}
		}
		for _, place := range places {
			next[ns]++
			if place.Gap() {
				gaps[ns]++
				continue
			}
			if err := c.checkCursor(ns, next[ns], place); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.hadMore = map[uint32]bool{}
	for ns, n := range gaps {
		c.hadMore[ns] = n > 0
	}
	for ns, entries := range c.entries {
		if having := next[ns] - gaps[ns]; uint64(entries) != having {
			return &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d entries have %d cursors", entries, having)}
		}
	}
	return nil
}

// checkCursor checks that an entry contains the cursor under which the cursor index refers to it.
func (c *Checker) checkCursor(ns uint32, cursor uint64, at codec.EntryRef) error {
	entry, err := layout.Get(c.Txn, layout.EntryKey(ns, at.Run, at.First))
	if err == nil && codec.EntryCursor(entry) != cursor {
		err = &Fault{Namespace: ns, Run: at.Run, Seq: at.First, Row: "cursor", Detail: fmt.Sprintf("%d points at no entry of that cursor", cursor)}
	}
	return err
}

// queues checks that every timer and every outbox row (outgoing work) follows from the current state of its
// run. None may be due before the watermark of its queue, where scans begin. Without a graph, outbox rows are
// not compared with the state.
func (c *Checker) queues() error {
	err := c.Each([]byte{layout.KindTimer}, func(key, _ []byte) error {
		t, err := layout.ReadTimer(key)
		if err != nil {
			return &Fault{Row: "timer", Detail: err.Error()}
		}
		c.report.Timers++
		if err := c.aboveMark("timer", layout.QueueID{Kind: layout.TimerQueue, Ns: t.Namespace}, t.RunID, t.Due); err != nil {
			return err
		}
		st, err := c.owner("timer", t.Namespace, t.RunID)
		if err != nil {
			return err
		}
		same := func(w machine.Timer) bool { return w.Due == t.Due && w.Kind == t.Kind && w.Step == t.Step }
		if !slices.ContainsFunc(rules.Timers(st), same) {
			return &Fault{Namespace: t.Namespace, Run: t.RunID, Row: "timer", Detail: fmt.Sprintf("the run has no timer of kind %d due at %d", t.Kind, t.Due)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.Each([]byte{layout.KindOutbox}, c.outboxRow)
}

// outboxRow checks that an outbox row belongs to a pending step of an existing run, and that scans of its queue
// find the row.
func (c *Checker) outboxRow(key, value []byte) error {
	o, err := layout.ReadOutbox(key)
	if err == nil {
		_, err = codec.DecodeHolder(value)
	}
	if err != nil {
		return &Fault{Row: "outbox", Detail: err.Error()}
	}
	c.report.Outbox++
	if err := c.aboveMark("outbox", layout.QueueID{Kind: byte(o.Kind), Ns: o.Namespace}, o.RunID, o.Due); err != nil {
		return err
	}
	st, err := c.owner("outbox", o.Namespace, o.RunID)
	if err != nil {
		return err
	}
	orphan := &Fault{Namespace: o.Namespace, Run: o.RunID, Row: "outbox", Detail: fmt.Sprintf("the run has no pending step %d, attempt %d", o.Step, o.Attempt)}
	// An outbox row of the kind OutboxCancel may exist longer than its step, because it waits until the
	// agent has confirmed the cancellation.
	if o.Kind == machine.OutboxCancel {
		if o.Step == 0 || o.Step > st.LastStep {
			return orphan
		}
		return nil
	}
	g, err := c.graph(st)
	if err != nil || g == nil {
		return err
	}
	if !slices.Contains(rules.Outbox(g, st), o) {
		return orphan
	}
	return nil
}

// aboveMark returns a fault for a row before the stored watermark of its queue, or if the watermark cannot be
// decoded. Scans begin at the watermark, so they would not find the row after a restart.
func (c *Checker) aboveMark(row string, q layout.QueueID, run string, due int64) error {
	value, err := layout.Get(c.Txn, layout.MarkOp(q, 0).Key)
	if err != nil || value == nil {
		return err
	}
	at, err := codec.DecodeNumber(value)
	if err == nil && due >= int64(at) {
		return nil
	}
	return &Fault{Namespace: q.Ns, Run: run, Row: row, Detail: fmt.Sprintf("due at %d, below the watermark %d of its queue", due, int64(at))}
}

// indexes checks the rows of the ready index (runs with a turn to execute) and of the list indexes. Each row
// must follow from the current state of its run. Without a graph, the rows of the ready index are only counted.
func (c *Checker) indexes() error {
	err := c.Each([]byte{layout.KindReady}, func(key, _ []byte) error {
		ns, run, err := layout.RunOf(key)
		if err != nil {
			return err
		}
		c.report.Ready++
		st, err := c.owner("ready", ns, run)
		if err != nil {
			return err
		}
		g, err := c.graph(st)
		if err != nil || g == nil {
			return err
		}
		if !rules.Ready(g, st) {
			return &Fault{Namespace: ns, Run: run, Row: "ready", Detail: "the run has no turn to offer"}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.Each([]byte{layout.KindIndex}, c.indexRow)
}

// indexRow checks that the run of an index row has the value under which the row lists it.
func (c *Checker) indexRow(key, _ []byte) error {
	ns, index, err := layout.RunOf(key)
	if err != nil {
		return err
	}
	_, rest, _ := layout.CutName(key[5:])
	value, rest, ok := layout.CutName(rest)
	run, rest, ok2 := layout.CutName(rest)
	if !ok || !ok2 || len(rest) != 0 {
		return &Fault{Namespace: ns, Row: "index", Detail: fmt.Sprintf("malformed key %x", key)}
	}
	c.report.Indexes++
	st, err := c.owner("index", ns, run)
	if err != nil {
		return err
	}
	if !slices.Contains(rules.Indexes(st), machine.IndexChange{Index: index, Value: value, Add: true}) {
		return &Fault{Namespace: ns, Run: run, Row: "index", Detail: fmt.Sprintf("the run is not under %s %q", index, value)}
	}
	return nil
}

// callers checks every row that maps the id of a start request to a run. The run must have been started
// with this id.
func (c *Checker) callers() error {
	return c.Each([]byte{layout.KindCallerID}, func(key, value []byte) error {
		d, _, err := c.Txn.Dedupe(machine.Dedupe{Scope: machine.PerPrincipal}, value)
		if err != nil {
			return &Fault{Row: "id", Detail: err.Error()}
		}
		ns := binary.BigEndian.Uint32(key[1:])
		c.report.IDs++
		entry, err := layout.Get(c.Txn, layout.EntryKey(ns, d.RunID, d.First))
		if err != nil {
			return err
		}
		if entry == nil {
			return c.orphan(ns, key, d.RunID)
		}
		e, err := c.Txn.Entry(d.RunID, entry)
		fault := &Fault{Namespace: ns, Run: d.RunID, Seq: d.First, Row: "id", Detail: "no entry used up this id"}
		if err != nil {
			return fault
		}
		used := machine.Dedupe{Scope: machine.PerPrincipal, Kind: machine.KindOf(e.Input.Command), Principal: e.Input.Principal, ID: e.Input.ID}
		if !bytes.Equal(key, layout.DedupeKey(nil, ns, &used)) || e.Input.BodyHash != d.BodyHash {
			return fault
		}
		return nil
	})
}

// orphan checks the row of a start request's id whose run does not exist. It is correct only if the id
// started a run that was deleted.
func (c *Checker) orphan(ns uint32, key []byte, run string) error {
	d, err := layout.DeletedOf(c.Txn, ns, run)
	if err != nil {
		return err
	}
	if d != nil {
		if start, ok := d.Start(); ok && bytes.Equal(key, layout.DedupeKey(nil, ns, &start)) {
			return nil
		}
	}
	return &Fault{Namespace: ns, Run: run, Row: "id", Detail: "the run that it began is not there, and was not deleted"}
}

// packs checks that pack names refer to existing digests, that digests have bytes, that the default version of
// a pack exists, and that the bytes have this digest.
func (c *Checker) packs() error {
	err := c.Each([]byte{layout.KindPackName}, func(key, value []byte) error {
		row, err := codec.DecodePackName(value)
		if err != nil {
			return &Fault{Row: "pack name", Detail: err.Error()}
		}
		c.report.Packs++
		ns := binary.BigEndian.Uint32(key[1:])
		if !bytes.Equal(key, layout.PackNameKey(ns, row.ID, row.Version)) {
			return &Fault{Namespace: ns, Row: "pack name", Detail: fmt.Sprintf("holds %s@%s", row.ID, row.Version)}
		}
		return c.requireRow("pack name", ns, row.ID+"@"+row.Version, layout.PackRefKey(ns, row.Digest))
	})
	if err != nil {
		return err
	}
	err = c.Each([]byte{layout.KindPackRef}, func(key, value []byte) error {
		row, err := codec.DecodePackName(value)
		if err != nil {
			return &Fault{Row: "pack digest", Detail: err.Error()}
		}
		return c.requireRow("pack digest", binary.BigEndian.Uint32(key[1:]), row.Digest, layout.PackKey(row.Digest))
	})
	if err != nil {
		return err
	}
	err = c.Each([]byte{layout.KindPackBare}, func(key, value []byte) error {
		ns, id, err := layout.RunOf(key)
		if err != nil {
			return err
		}
		return c.requireRow("pack default", ns, id, layout.PackNameKey(ns, id, string(value[min(1, len(value)):])))
	})
	if err != nil {
		return err
	}
	return c.Each([]byte{layout.KindPack}, func(key, value []byte) error {
		row := machine.PackRow{Digest: string(key[1:])}
		err := codec.DecodePackBytes(&row, value)
		if err = errors.Join(err, layout.CheckPack(&row)); err != nil {
			return &Fault{Row: "pack", Detail: err.Error()}
		}
		return nil
	})
}

func (c *Checker) requireRow(row string, ns uint32, what string, key []byte) error {
	value, err := layout.Get(c.Txn, key)
	if err == nil && value == nil {
		return &Fault{Namespace: ns, Row: row, Detail: what + " leads to nothing"}
	}
	return err
}
