package demo

import (
	"path/filepath"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestRefundJudge gives runs to the closing checks that are not what a run has to be.
func TestRefundJudge(t *testing.T) {
	t.Parallel()
	good := func() (*refundDemo, *pawlv1.Run, []Payment) {
		r := &refundDemo{facts: refundFacts{Paid: []string{"r/1", "r/2", "r/4", "r/5"}, Approved: 1, LookedUp: 1, Crashes: 1}}
		run := &pawlv1.Run{Status: pawlv1.RunStatus_RUN_STATUS_COMPLETED, State: "closed", CostMicroUsd: 1_000_000}
		return r, run, []Payment{{"r/1", "17", 20}, {"r/2", "18", 35.5}, {"r/4", "19", 150}, {"r/5", "20", 12}}
	}
	r, run, payments := good()
	if err := r.checkRun(run, payments); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func(*refundDemo, *pawlv1.Run, *[]Payment)
	}{
		{"a payment twice", "paid twice", func(_ *refundDemo, _ *pawlv1.Run, p *[]Payment) { *p = append(*p, (*p)[1]) }},
		{"a payment lost", "the ledger has the payments", func(_ *refundDemo, _ *pawlv1.Run, p *[]Payment) { *p = (*p)[1:] }},
		{"a payment that the journal does not have", "the journal", func(r *refundDemo, _ *pawlv1.Run, _ *[]Payment) { r.facts.Paid = r.facts.Paid[1:] }},
		{"no approval", "without an approval", func(r *refundDemo, _ *pawlv1.Run, _ *[]Payment) { r.facts.Approved, r.facts.Denied = 0, 1 }},
		{"fees", "micro USD", func(_ *refundDemo, run *pawlv1.Run, _ *[]Payment) { run.CostMicroUsd++ }},
		{"status", "status is", func(_ *refundDemo, run *pawlv1.Run, _ *[]Payment) { run.Status = pawlv1.RunStatus_RUN_STATUS_FAILED }},
		{"no crash", "0 crashes", func(r *refundDemo, _ *pawlv1.Run, _ *[]Payment) { r.facts.Crashes = 0 }},
	} {
		r, run, payments := good()
		c.change(r, run, &payments)
		if err := r.checkRun(run, payments); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestLedger reads what was written, keeps duplicates and finds payments by their keys.
func TestLedger(t *testing.T) {
	t.Parallel()
	l := Ledger{Path: filepath.Join(t.TempDir(), "ledger.jsonl")}
	if all, err := l.Payments(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	for _, p := range []Payment{{"r/1", "17", 20}, {"r/1", "17", 20}, {"r/2", "18", 35.5}} {
		if err := l.Pay(p); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := l.Payments(); err != nil || len(all) != 3 {
		t.Error("a ledger keeps duplicates", all, err)
	}
	if p, found, err := l.Find("r/2"); err != nil || !found || p.Order != "18" {
		t.Error(p, found, err)
	}
	if _, found, err := l.Find("r/3"); err != nil || found {
		t.Error(found, err)
	}
}
