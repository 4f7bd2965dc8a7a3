package main

import (
	"fmt"
	"path/filepath"
	"slices"
)

// mutant is a fault that the simulator must find.
type mutant struct {
	name, what string
	file       string
	exchange
	// more of the same file, if one is not enough.
	more []exchange
}

// all are those of every list.
func all() []mutant {
	return slices.Concat(mutants, effectMutants, moneyMutants, mendMutants, databaseMutants, clusterMutants)
}

// mutate builds in the named fault; "" = none.
func (o *overlay) mutate(name string) error {
	if name == "" {
		return nil
	}
	for _, m := range all() {
		if m.name == name {
			return o.patch(filepath.Join(o.module, m.file), append([]exchange{m.exchange}, m.more...)...)
		}
	}
	return fmt.Errorf("no fault is named %q; -list prints them", name)
}

// mutants are faults that Pawl had or could have. Those of rows 8.N are the faults of
// docs/dev/testing.md#fault-catalogue, "Every promise kept".
var mutants = []mutant{
	{
		name: "m01", what: "a sync left out: Badger is told not to sync", file: "internal/store/badgerengine/db.go",
		exchange: exchange{old: "WithSyncWrites(true)", new: "WithSyncWrites(false)"},
	},
	{
		name: "m02", what: "an answer before the sync", file: "internal/store/committer.go",
		exchange: exchange{
			old: "g.batch.Commit(c.ts, func(r kv.Result) { c.acks <- r })\n",
			new: "c.acks <- kv.Result{Outcome: kv.Stored}\n\tg.batch.Commit(c.ts, func(kv.Result) {})\n",
		},
	},
	{
		name: "m03", what: "HEAD claims a group before it is synced", file: "internal/store/committer.go",
		exchange: exchange{
			old: "\tc.addCursorRows(g)\n",
			new: "\t_ = c.store.engine.Settled(engine.Group{Number: c.ts, Apart: g.holdsApart(c.store.bounds.Apart), Last: g.last()})\n\tc.addCursorRows(g)\n",
		},
	},
	{
		name: "m04", what: "a guard's off-by-one: a state may be entered once more than max_visits", file: "internal/runtime/machine/rules/enter.go",
		exchange: exchange{old: "VisitsOf(t.s, next) < n.MaxVisits", new: "VisitsOf(t.s, next) <= n.MaxVisits"},
	},
	{
		name: "m05", what: "a dropped wake-up: the timers' loop is not woken for an earlier timer", file: "internal/runtime/timers.go",
		exchange: exchange{old: "if due >= t.alarm.Load() {", new: "if due < t.alarm.Load() {"},
	},
	{
		name: "m06", what: "a lost lease: the turn of a worker that leaves is offered to nobody", file: "internal/runtime/dispatch/worker.go",
		exchange: exchange{old: "\t\tsp.requeue(lease, lost && !w.drains)\n", new: ""},
	},
	{
		name: "m07", what: "a dedupe row left out: the id of an event is not stored", file: "internal/store/layout/encode.go",
		exchange: exchange{old: "\t\td := &batch.Consumed[i]\n", new: "\t\td := &batch.Consumed[i]\n\t\tif d.Kind == machine.CmdEmitEvent {\n\t\t\tcontinue\n\t\t}\n"},
	},
	{
		name: "m08", what: "a dropped wake-up: readers of all runs are not woken while a wake is due", file: "internal/runtime/streams/hub.go",
		exchange: exchange{old: "\t\tsp.pending = false\n\t\tsp.flush()\n", new: "\t\tsp.pending = false\n"},
	},
	{
		name: "m09", what: "a group is shown to readers before it is synced", file: "internal/store/committer.go",
		exchange: exchange{
			old: "\tc.addCursorRows(g)\n",
			new: "\tc.store.readTimestamps.publish(c.ts, c.tails(g))\n\tc.addCursorRows(g)\n",
		},
	},
	{
		name: "m10", what: "a registration's answer shares its message with others (a fault of 2026)", file: "internal/grpcapi/worker_stream.go",
		exchange: exchange{old: "if !l.batches || queue[0].GetRegistered() != nil {", new: "if !l.batches {"},
	},
	{
		name: "m11", what: "an entry's cursor is given twice: the place of a namespace is not kept over groups", file: "internal/store/group.go",
		exchange: exchange{old: "\t\tc.cursors[w.ns] = w.cursor\n", new: "\t\tif len(g.requests) == 0 {\n\t\t\tc.cursors[w.ns] = w.cursor\n\t\t}\n"},
	},
	{
		name: "m12", what: "a webhook's sender is not waited for when it is removed", file: "internal/delivery/deliveries.go",
		exchange: exchange{old: "\t\ts.stop()\n\t\t<-s.done\n", new: "\t\ts.stop()\n"},
	},
	{
		name: "m13", what: "a round that was answered is asked again by the next execution of its turn, as after a restart", file: "internal/runtime/machine/rules/model.go",
		exchange: exchange{old: "return step.Status == machine.StepStatusOK || t.requestedBy(", new: "return t.requestedBy("},
	},
	{
		name: "m14", what: "what a failed call of a model consumed is dropped", file: "internal/runtime/machine/rules/model.go",
		exchange: exchange{
			old: "func (t *txn) failModel(i int, c *machine.AnswerModel) {\n",
			new: "func (t *txn) failModel(i int, c *machine.AnswerModel) {\n\tc.Usage = machine.Usage{}\n",
		},
	},
	{
		name: "m15", what: "the key of a model's tool call is made of its arguments instead of its place", file: "internal/runtime/machine/rules/request.go",
		exchange: exchange{
			old: "CallKey(t.s.Steps, a.Call, fmt.Sprintf(\"requests[%d].call\", i))\n",
			new: "CallKey(t.s.Steps, a.Call, fmt.Sprintf(\"requests[%d].call\", i))\n\t\ta.key += \"/\" + string(a.Payload)\n",
		},
	},
	{
		name: "m16", what: "a text of a request is looked for by its record alone: the transcript shows another one", file: "internal/runtime/history/model.go",
		exchange: exchange{old: "if t.Hash == text.Hash && t.Seq == 0 {", new: "if t.Seq == 0 {"},
	},
	{
		name: "m17", what: "a loop that repeats itself is let go on for one more lap", file: "internal/runtime/machine/rules/enter.go",
		exchange: exchange{old: "\tif n < rule.Window {\n", new: "\tif n <= rule.Window {\n"},
	},
	{
		name: "m18", what: "what comes from outside is forgotten to be progress", file: "internal/runtime/machine/rules/enter.go",
		exchange: exchange{old: "func (t *txn) resetProgress() { t.s.Repeats = nil }", new: "func (t *txn) resetProgress() {}"},
	},
	{
		name: "m30", what: "what people said while a call of a model was out is taken for heard", file: "internal/runtime/machine/rules/message.go",
		exchange: exchange{old: "return h.Seq < seq && !h.Later }", new: "return seq > 0 && !h.Later }"},
	},
	{
		name: "m31", what: "a request that leaves out what people said is taken", file: "internal/runtime/machine/rules/message.go",
		exchange: exchange{old: "\t\tif !h.Later && !slices.Contains(r.IncludedSeqs, h.Seq) {\n", new: "\t\tif !h.Later && h.Notice && !slices.Contains(r.IncludedSeqs, h.Seq) {\n"},
	},
	{
		name: "m32", what: "calls that nobody answered join the conversation of a stopped turn without an answer", file: "internal/runtime/history/required_messages.go",
		exchange: exchange{
			old: "\t\tanswer := Recorded{Error: machine.CancelledFault}\n",
			new: "\t\tif said.Answer == 0 {\n\t\t\tcontinue\n\t\t}\n\t\tanswer := Recorded{Error: machine.CancelledFault}\n",
		},
	},
	{
		name: "m33", what: "a stopped run is given its next turn at once", file: "internal/runtime/machine/rules/message.go",
		exchange: exchange{old: "\tt.putAway(c.Note)\n\tt.drainQueue()\n", new: "\tt.putAway(c.Note)\n\tt.nextTurn()\n"},
	},
	{
		name: "r8.1", what: "an answer over the wire has the credential's rights instead of its giver's", file: "internal/a2a/delegation.go",
		exchange: exchange{old: "if err != nil || d == nil || d.Answerer == nil {", new: "if err != nil || d == nil || d.Answerer == nil || !s.cfg.InProcess {"},
	},
	{
		name: "r8.2", what: "a watermark is not lowered in the group of a row below it", file: "internal/store/group.go",
		exchange: exchange{old: "lowered := c.watermarks.set(queue(op.Key)); lowered != nil {", new: "lowered := c.watermarks.set(queue(op.Key)); lowered != nil && len(g.requests) > 0 {"},
	},
	{
		name: "r8.3", what: "guards do not see the group in flight: a delete that was answered is undone", file: "internal/store/group.go",
		exchange: exchange{old: "if v, ok := c.sentGuarded[string(key)]; ok {", new: "if v, ok := c.sentGuarded[string(key)]; ok && false {"},
	},
	{
		name: "r8.4", what: "the cached state of a run is used while its commit is under way", file: "internal/runtime/run_table.go",
		exchange: exchange{old: "entry != nil && !entry.commitInFlight {", new: "entry != nil {"},
	},
	{
		name: "r8.5", what: "the idempotency key of a tool has the attempt in it", file: "internal/grpcapi/convert/worker.go",
		exchange: exchange{old: "machine.IdempotencyKey(d.RunID, d.StepLease.Step),", new: "machine.IdempotencyKey(d.RunID, d.StepLease.Step+uint32(d.Attempt)<<16),"},
	},
	{
		name: "r8.6", what: "a store that lost what it acknowledged is served: nobody reads HEAD", file: "internal/store/datadir/ack_file.go",
		exchange: exchange{old: "func ReadAcked(dir string) (*AckMark, error) {\n", new: "func ReadAcked(dir string) (*AckMark, error) {\n\tif dir != \"\" {\n\t\treturn nil, nil\n\t}\n"},
	},
	{
		name: "r8.11", what: "the id of a call without effect is forgotten", file: "internal/runtime/machine/rules/result.go",
		exchange: exchange{old: "\tt.record(&machine.NoChange{Command: machine.KindOf(t.input.Command), ID: t.input.ID})\n\treturn true\n", new: "\treturn false\n"},
	},
	{
		name: "r8.12", what: "a file that was being born when the power went is not removed", file: "internal/store/datadir/unborn.go",
		exchange: exchange{old: "\t\terr = errors.Join(err, os.Remove(filepath.Join(n.dir, name)))\n", new: "\t\t_, err = name, errors.Join(err)\n"},
	},
}
