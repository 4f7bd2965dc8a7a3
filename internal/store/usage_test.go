package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

const day = int64(24 * time.Hour)

// rolledUp returns all rollups of a namespace by what they are sums of.
func rolledUp(t *testing.T, s *Store, ns uint32) map[string]machine.UsageSum {
	t.Helper()
	out := map[string]machine.UsageSum{}
	_, err := s.Usage(t.Context(), ns, machine.UsageSearch{From: -1 << 20, To: 1 << 20}, func(r *machine.UsageRow) bool {
		out[usageName(r)] = r.UsageSum
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func usageName(r *machine.UsageRow) string {
	return fmt.Sprint(r.Day, "/", r.Pack, "/", r.State, "/", r.Model, "/", r.Tool, "/", r.Labels)
}

// spender drives random runs that consume something, and counts it from the records.
type spender struct {
	*world
	rand *rand.Rand
	want map[string]machine.UsageSum
	n    int
}

// step commits an input if the machine accepts it, and counts what its records have consumed.
func (p *spender) step(run string, at int64, c machine.Command) {
	p.t.Helper()
	before := p.runs[run]
	r, err := rules.Step(p.graph, before, machine.Input{At: at, Principal: "anonymous", Semantics: machine.Current, Command: c})
	if err != nil || r.Batch == nil {
		return
	}
	if _, err := p.store.Commit(context.Background(), r.Batch); err != nil {
		p.t.Fatalf("%T: %v", c, err)
	}
	p.runs[run] = r.State
	for i := range r.Batch.Records {
		used := machine.UsageOf(r.Batch.Records[i].Body)
		if used.InputTokens|used.OutputTokens|used.CostMicro == 0 {
			continue
		}
		row := machine.UsageRow{Day: machine.UsageDay(r.Batch.Records[i].At), Pack: "codegen", State: before.Current, Model: used.Model}
		if b, ok := r.Batch.Records[i].Body.(*machine.StepResolved); ok {
			row.Tool = b.Tool
			if b.Kind == machine.KindModel {
				row.Model, row.Tool = b.Tool, ""
			}
		}
		for _, l := range r.State.Labels {
			if l.Key == "team" {
				row.Labels = []machine.Label{l}
			}
		}
		sum := p.want[usageName(&row)]
		sum.Add(machine.UsageSum{InputTokens: used.InputTokens, OutputTokens: used.OutputTokens, CostMicro: used.CostMicro, Reports: 1})
		p.want[usageName(&row)] = sum
	}
}

// used is a random usage. Some of it is zero.
func (p *spender) used(model string) machine.Usage {
	if p.rand.IntN(5) == 0 {
		return machine.Usage{}
	}
	return machine.Usage{InputTokens: p.rand.Int64N(1000), OutputTokens: p.rand.Int64N(1000), CostMicro: p.rand.Int64N(100_000), Model: model}
}

// spend makes one random input at a random time. The clock goes forward and back by days.
func (p *spender) spend() {
	p.t.Helper()
	at := testTime + p.rand.Int64N(7*day) - 3*day
	p.n++
	if len(p.runs) < 6 || p.rand.IntN(20) == 0 {
		run := fmt.Sprintf("R%d", p.n)
		p.step(run, at, machine.Start{RunID: run, Execution: machine.Caller, Labels: []machine.Label{
			{Key: "team", Value: fmt.Sprint("team-", p.rand.IntN(3))}, {Key: "ticket", Value: fmt.Sprint(p.n)},
		}})
		return
	}
	names := slices.Sorted(maps.Keys(p.runs))
	run := names[p.rand.IntN(len(names))]
	st := p.runs[run]
	if st.Status.Terminal() {
		if p.rand.IntN(3) == 0 {
			p.delete(run)
		}
		return
	}
	if st.Turn == nil || p.graph.States[st.Current].Terminal {
		p.step(run, at, machine.Cancel{})
		return
	}
	turn, attempt := st.Turn.Seq, st.Turn.Attempt
	switch p.rand.IntN(7) {
	case 0:
		event := slices.Sorted(maps.Keys(p.graph.States[st.Current].OnEvent))
		p.step(run, at, machine.CompleteTurn{TurnSeq: turn, Attempt: attempt, Event: event[p.rand.IntN(len(event))], Usage: p.used("turn")})
	case 1:
		p.step(run, at, machine.FailTurn{TurnSeq: turn, Attempt: attempt, Retryable: true, Error: machine.Fault{Code: "X"}, Usage: p.used("turn")})
		due := int64(0)
		if open := p.runs[run].Turn; open != nil {
			due = open.NotBefore
		}
		p.step(run, max(due, at), machine.FireTimer{Kind: machine.TimerRetry, Turn: turn, Due: due})
	case 2, 3:
		p.step(run, at, machine.RequestSteps{TurnSeq: turn, Attempt: attempt, Requests: []machine.StepRequest{{Key: fmt.Sprint(p.n), Tool: "run_tests", Payload: []byte("{}")}}})
		if p.runs[run].LastStep == st.LastStep {
			return
		}
		p.step(run, at, machine.ResolveStep{Step: p.runs[run].LastStep, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`"ok"`), Usage: p.used("")})
	case 4, 5:
		p.step(run, at, machine.RequestModel{TurnSeq: turn, Attempt: attempt, Round: int(st.ModelSteps) + 1, Model: &machine.ModelRequest{Model: "asked"}})
		step := p.runs[run].LastStep
		if step == st.LastStep {
			return
		}
		p.step(run, at, machine.AnswerModel{TurnSeq: turn, TurnAttempt: attempt, Step: step, Attempt: 1, Answer: &machine.ModelAnswer{Refusal: "no"}, Usage: p.used("")})
	case 6:
		p.step(run, at, machine.Cancel{})
	}
}

// TestUsageIsTheLedger: the rollups of random runs are what the records say, to the micro-dollar, also after a kill, and
// after the runs were deleted. The clock goes back by days, and only the operator's label counts.
func TestUsageIsTheLedger(t *testing.T) {
	t.Parallel()
	labels := func(o *Options) { o.UsageLabels = []string{"team"} }
	p := &spender{world: newWorld(t, openTemp(t, labels)), rand: rand.New(rand.NewPCG(35, 1)), want: map[string]machine.UsageSum{}}
	p.graph.Budget.MaxWallTime = 0
	compare := func(when string) {
		t.Helper()
		if got := rolledUp(t, p.store, 0); !maps.Equal(got, p.want) {
			t.Fatalf("%s: rollups are %v, want %v", when, got, p.want)
		}
		p.check()
	}
	for range 300 {
		p.spend()
	}
	compare("before a kill")
	p.store = openTemp(t, labels, func(o *Options) { o.Dir = copyStore(t, p.store) })
	compare("after a kill")
	for range 300 {
		p.spend()
	}
	compare("at the end")
	if len(p.want) < 30 {
		t.Errorf("only %d rollups", len(p.want))
	}
	for _, run := range slices.Sorted(maps.Keys(p.runs)) {
		p.step(run, testTime+9*day, machine.Cancel{})
		p.delete(run)
	}
	compare("without runs")
	since, err := p.store.Usage(t.Context(), 0, machine.UsageSearch{}, func(*machine.UsageRow) bool { return true })
	if err != nil || !since.Complete {
		t.Errorf("since %+v, %v", since, err)
	}
}

// TestUsageOfAnInputWithoutIt: an input that consumes nothing writes no rollup.
func TestUsageOfAnInputWithoutIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	w.live("R")
	w.end("R")
	if got := rolledUp(t, w.store, 0); len(got) != 0 {
		t.Errorf("rollups %v", got)
	}
}

// TestUsageIsBounded: a flood of values of a label makes a bounded number of rollups, and their sums stay exact. New states
// and models still have rollups of their own for some time. After a restart the bound is the same.
func TestUsageIsBounded(t *testing.T) {
	t.Parallel()
	bounded := func(o *Options) { o.UsageLabels, o.UsageRows = []string{"team"}, 50 }
	p := &spender{world: newWorld(t, openTemp(t, bounded)), rand: rand.New(rand.NewPCG(35, 2)), want: map[string]machine.UsageSum{}}
	want := machine.UsageSum{}
	flood := func(from, to int, label, model string) {
		for i := from; i < to; i++ {
			run := fmt.Sprint("R", i)
			p.step(run, testTime, machine.Start{RunID: run, Execution: machine.Caller, Labels: []machine.Label{{Key: "team", Value: fmt.Sprint(label, i)}}})
			used := machine.Usage{InputTokens: 1, OutputTokens: 2, CostMicro: int64(i), Model: model}
			if model == "" {
				used.Model = strings.Repeat("m\x00", 4000) + fmt.Sprint(i)
			}
			p.step(run, testTime, machine.CompleteTurn{TurnSeq: 1, Attempt: 1, Event: "Planned", Usage: used})
			want.Add(machine.UsageSum{InputTokens: 1, OutputTokens: 2, CostMicro: int64(i), Reports: 1})
		}
	}
	sums := func(most int) (all machine.UsageSum, rows map[string]machine.UsageSum) {
		t.Helper()
		rows = rolledUp(t, p.store, 0)
		for _, sum := range rows {
			all.Add(sum)
		}
		if all != want || len(rows) > most {
			t.Fatalf("%d rollups have %+v, want %+v", len(rows), all, want)
		}
		p.check()
		return all, rows
	}
	flood(0, 300, "v", "a")
	_, rows := sums(51)
	folded := machine.UsageRow{Day: machine.UsageDay(testTime), Pack: "codegen", State: "plan", Model: "a", Labels: []machine.Label{{Key: "team", Value: machine.UsageOther}}}
	if rows[usageName(&folded)].Reports != 250 {
		t.Errorf("rollups %v", rows)
	}
	p.store = func() *Store {
		if err := p.store.Close(); err != nil {
			t.Fatal(err)
		}
		return openTemp(t, bounded, func(o *Options) { o.Dir = p.store.opts.Dir })
	}()
	for i := range 20 {
		flood(300+10*i, 310+10*i, "w", fmt.Sprint("model-", i))
	}
	flood(500, 520, "x", "")
	_, rows = sums(56)
	folded.Pack, folded.State, folded.Model, folded.Tool = machine.UsageOther, machine.UsageOther, machine.UsageOther, machine.UsageOther
	if rows[usageName(&folded)].Reports == 0 {
		t.Errorf("rollups %v", rows)
	}
	// The next day has room again.
	p.step("next", testTime+day, machine.Start{RunID: "next", Execution: machine.Caller, Labels: []machine.Label{{Key: "team", Value: "y"}}})
	p.step("next", testTime+day, machine.CompleteTurn{TurnSeq: 1, Attempt: 1, Event: "Planned", Usage: machine.Usage{InputTokens: 1, Model: "a"}})
	want.Add(machine.UsageSum{InputTokens: 1, Reports: 1})
	_, rows = sums(57)
	next := machine.UsageRow{Day: machine.UsageDay(testTime + day), Pack: "codegen", State: "plan", Model: "a", Labels: []machine.Label{{Key: "team", Value: "y"}}}
	if rows[usageName(&next)].Reports != 1 {
		t.Errorf("rollups %v", rows)
	}
}

// TestUsageIsChecked: a check finds a rollup that is lost or changed. A repair cannot know what it had, so the rollups are
// then complete from the newest record on.
func TestUsageIsChecked(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(key []byte) layout.Op{
		"lost":      func(key []byte) layout.Op { return layout.Op{Key: key, Delete: true} },
		"changed":   func(key []byte) layout.Op { return layout.AddUsage(key, machine.UsageSum{CostMicro: 1}) },
		"malformed": func(key []byte) layout.Op { return layout.Op{Key: key, Value: []byte{1, 2}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := travelWorld(t)
			w.talk("R", 100, 3)
			if report := w.check(); report.Usage != 1 {
				t.Fatalf("%+v", report)
			}
			var key []byte
			err := layout.EachRow(t.Context(), w.store.view, []byte{layout.KindUsage}, func(k, _ []byte) error { key = k; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if err := w.store.put(t.Context(), []layout.Op{damage(key)}); err != nil {
				t.Fatal(err)
			}
			_, err = w.store.Check(t.Context(), w.graphs)
			if fault, ok := errors.AsType[*check.Fault](err); !ok || fault.Row != "usage" {
				t.Fatalf("check: %v", err)
			}
			if _, err := w.store.Repair(t.Context(), w.graphs); err != nil {
				t.Fatal(err)
			}
			w.check()
			since, err := w.store.Usage(t.Context(), 0, machine.UsageSearch{}, func(*machine.UsageRow) bool { return true })
			if err != nil || since.Complete || since.At != w.at {
				t.Errorf("since %+v, %v", since, err)
			}
		})
	}
}

// TestUsageOfAnImportedRun: the usage of an imported run is in the rollups of the store in which it ran. The check and a repair
// of the other store find nothing to correct, also if it has runs of its own.
func TestUsageOfAnImportedRun(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	w.runs["R"] = w.talk("R", 100, 3)
	file := w.export("R")
	other := travelWorld(t)
	if _, _, err := w.importInto(other.store, 0, file); err != nil {
		t.Fatal(err)
	}
	other.check()
	if report, err := other.store.Repair(t.Context(), other.graphs); err != nil || report.Rows["usage"] != nil {
		t.Errorf("repair: %+v, %v", report, err)
	}
	other.talk("S", 10, 1)
	other.check()
}

// TestUsageSinceAfterDeletions: a repair of a store whose deleted runs are forgotten does not take their usage for a fault.
func TestUsageSinceAfterDeletions(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	st := w.talk("R", 100, 3)
	w.talk("S", 10, 1)
	if _, err := w.commitCharged(st, 100, machine.Cancel{}); err != nil {
		t.Fatal(err)
	}
	w.delete("R")
	if _, err := w.store.ForgetDeleted(t.Context(), 0, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	w.check()
	if _, err := w.store.Repair(t.Context(), w.graphs); err != nil {
		t.Fatal(err)
	}
	since, err := w.store.Usage(t.Context(), 0, machine.UsageSearch{}, func(*machine.UsageRow) bool { return true })
	if err != nil || !since.Complete {
		t.Errorf("since %+v, %v", since, err)
	}
}

// TestUsageOfAnOlderStore: the rollups of a store that an older program began are complete from the first one on.
func TestUsageOfAnOlderStore(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	w.talk("R", 100, 3)
	var ops []layout.Op
	for _, kind := range []byte{layout.KindUsage} {
		err := layout.EachRow(t.Context(), w.store.view, []byte{kind}, func(k, _ []byte) error {
			ops = append(ops, layout.Op{Key: k, Delete: true})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.put(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	w.store = reopen(t, w.store)
	w.check()
	since := func() machine.UsageSince {
		t.Helper()
		since, err := w.store.Usage(t.Context(), 0, machine.UsageSearch{}, func(*machine.UsageRow) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return since
	}
	if got := since(); got != (machine.UsageSince{}) {
		t.Errorf("before the first usage: %+v", got)
	}
	w.at += day
	w.talk("S", 100, 2)
	if got := since(); got != (machine.UsageSince{At: w.at}) {
		t.Errorf("after it: %+v", got)
	}
	w.store = reopen(t, w.store)
	w.at += day
	w.talk("T", 100, 2)
	if got := since(); got.At != w.at-day || len(rolledUp(t, w.store, 0)) != 2 {
		t.Errorf("after a restart: %+v", got)
	}
	w.check()
}
