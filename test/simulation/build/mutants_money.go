package main

// moneyMutants are faults of budgets, leases, accounts and approvals.
var moneyMutants = []mutant{
	{
		name: "c01", what: "what is under way is not counted when more is asked for", file: "internal/runtime/machine/rules/ledger.go",
		exchange: exchange{old: "\ttokens, cost := Reserved(t.s, i)\n", new: "\ttokens, cost := int64(0), int64(0)\n"},
	},
	{
		name: "c02", what: "what was answered stays reserved", file: "internal/runtime/machine/rules/budget.go",
		exchange: exchange{old: "p.Status != machine.StepStatusPending {", new: "p.Status == machine.StepStatusCancelled {"},
	},
	{
		name: "c03", what: "a lease is not given back: all of it is settled", file: "internal/runtime/machine/rules/ledger.go",
		exchange: exchange{old: "\tsilent := !metered && ", new: "\tsilent := step.Delegation || !metered && "},
	},
	{
		name: "c04", what: "an agent's run is not told its lease", file: "internal/a2a/delegation.go",
		exchange: exchange{old: "\tstart.Lease, _ = d.Lease.Amount()\n", new: ""},
	},
	{
		name: "c05", what: "what was out when it was cancelled is taken for free", file: "internal/runtime/machine/rules/ledger.go",
		exchange: exchange{old: "\t\tused = usageOfBound(step.Bound)\n\t\tt.settleOf(step, used)\n", new: ""},
	},
	{
		name: "c06", what: "an account is not counted in: its ledger forgets what an input reserves", file: "internal/runtime/budget/ledger.go",
		exchange: exchange{old: "\t\tl.row(hold.namespace, c.After.Account).Add(c)\n", new: "\t\tl.row(hold.namespace, c.After.Account).Turn(c.After.Window)\n"},
	},
	{
		name: "c07", what: "a new day does not begin: an account keeps what was settled the day before", file: "internal/runtime/machine/ledger.go",
		exchange: exchange{old: "\tif window > r.Window {\n", new: "\tif window > r.Window && r.Window == 0 {\n"},
	},
	{
		name: "c09", what: "a call goes out as it was asked for, whatever was decided, and nobody makes its digest", file: "internal/runtime/dispatch/step.go",
		exchange: exchange{
			old: "\t\tview, err := sp.dispatcher.cfg.Past.Step(ctx, key, p)\n",
			new: "\t\tasked := *p\n\t\tasked.Approval = nil\n\t\tview, err := sp.dispatcher.cfg.Past.Step(ctx, key, &asked)\n",
		},
	},
	{
		name: "c10", what: "a decision is taken twice", file: "internal/runtime/machine/rules/approve.go",
		exchange: exchange{old: "!step.Approval.Held && step.Approval.Verdict != 0 {", new: "!step.Approval.Held && step.Approval.Verdict == machine.Refused {"},
		more:     []exchange{{old: "if step == nil || !step.HeldForApproval() {", new: "if step == nil || step.Approval == nil {"}},
	},
	{
		name: "c11", what: "a decision about another call is taken: nobody compares the digest", file: "internal/runtime/machine/rules/approve.go",
		exchange: exchange{old: "\tif step.Approval.Digest == c.Digest {\n", new: "\tif step.Approval.Digest != [32]byte{} {\n"},
	},
	{
		name: "c12", what: "whoever started the run decides, though the pack says another", file: "internal/runtime/machine/rules/approve.go",
		exchange: exchange{old: "!slices.Contains(c.Starters, by) {", new: "slices.Contains(c.Starters, \"\") || by != \"\" {"},
	},
	{
		name: "c13", what: "a run of another sidecar that does not say where it is is taken for one of this store (a fault of 2026)", file: "internal/a2a/delegation.go",
		exchange: exchange{old: "\tif !s.cfg.InProcess && d.Origin == \"\" {\n", new: "\tif !s.cfg.InProcess && d.Origin == \"nowhere\" {\n"},
	},
}
