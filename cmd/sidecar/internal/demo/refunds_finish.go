package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// finish compares the ledger with the journal, stops the sidecar, checks its store and prints the
// result.
func (r *refundDemo) finish(ctx context.Context) error {
	got, err := r.run.Info(ctx)
	if err != nil {
		return err
	}
	payments, err := r.ledger.Payments()
	if err != nil {
		return err
	}
	if err := r.checkRun(got.GetRun(), payments); err != nil {
		return err
	}
	process := r.process
	r.process = nil
	if err := errors.Join(r.client.Close(), process.stop()); err != nil {
		return err
	}
	r.client = nil
	checked, err := checkStore(ctx, r.Binary, r.place())
	if err != nil {
		return err
	}
	if r.Printer.JSON {
		doc := output.Object{
			{Key: "ok", Value: true},
			{Key: "facts", Value: r.facts},
			{Key: "ledger", Value: payments},
			{Key: "run", Value: output.RunWith(got.GetRun(), got.GetArtifacts())},
		}
		if r.Keep {
			doc = doc.WithField("dir", r.Dir)
		}
		return output.WriteJSON(r.Printer.Out, doc)
	}
	r.printLine("check", "%s", checked)
	r.print(got.GetRun(), payments)
	return nil
}

// checkRun returns an error with all differences between the run and the expected run. The expected run depends on what a person decided.
func (r *refundDemo) checkRun(run *pawlv1.Run, payments []Payment) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	var keys []string
	for _, p := range payments {
		check(!slices.Contains(keys, p.Key), "order %s was paid twice under %s", p.Order, p.Key)
		check(p.Amount <= 100 || r.facts.Approved == 1, "order %s was paid without an approval", p.Order)
		keys = append(keys, p.Key)
	}
	slices.Sort(keys)
	done := slices.Sorted(slices.Values(r.facts.Paid))
	check(slices.Equal(keys, done), "the ledger has the payments %v, the journal %v", keys, done)
	check(len(payments) == 4, "the budget has room for 4 payments; the ledger has %d", len(payments))
	check(run.GetCostMicroUsd() == int64(len(payments))*250_000, "the run paid %d micro USD of fees for %d payments", run.GetCostMicroUsd(), len(payments))
	check(run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_COMPLETED, "status is %s %s", run.GetStatus(), run.GetReason())
	check(run.GetState() == "closed", "the run ended in %q", run.GetState())
	check(r.facts.Crashes == 1 && r.facts.LookedUp == 1, "%d crashes, %d payments were looked up", r.facts.Crashes, r.facts.LookedUp)
	check(r.facts.Approved+r.facts.Denied == 1, "%d decisions", r.facts.Approved+r.facts.Denied)
	return errors.Join(faults...)
}

func (r *refundDemo) print(run *pawlv1.Run, payments []Payment) {
	p := r.Printer
	p.Printf("\n")
	t := output.Table{Headers: []string{"LEDGER", "ORDER", "AMOUNT", "IDEMPOTENCY KEY"}}
	for i, payment := range payments {
		t.Add(fmt.Sprint(i+1), payment.Order, fmt.Sprintf("%.2f", payment.Amount), payment.Key)
	}
	p.Table(t)
	p.Printf("\nEach payment is in the ledger once. The fees are %.2f of 1.00 USD, and the model wanted more.\n", float64(run.GetCostMicroUsd())/1e6)
	if !r.Keep {
		p.Printf("\nNext: pawl demo --keep keeps the files; pawl init makes a project of your own.\n")
		return
	}
	p.Printf("\nNext, with the files in %s:\n", r.Dir)
	p.Printf("  %s dev %s\n", r.Binary, filepath.Join(r.Dir, "refunds.pack.yaml"))
	p.Printf("  %s serve --data %s --http 127.0.0.1:7292   (the run on the page)\n", r.Binary, filepath.Join(r.Dir, "data"))
	p.Printf("  %s runs trace %s   (in another terminal)\n", r.Binary, r.run.ID())
}
