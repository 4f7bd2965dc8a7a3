package main

// mendMutants are faults by which money or consent was lost in 2026.
var mendMutants = []mutant{
	{
		name: "j01", what: "what an agent is asked for is read without regard to the case of names, the last one wins (a fault of 2026)", file: "internal/strictjson/decode.go",
		exchange: exchange{old: "clean, f := names.clean(raw, reflect.TypeOf(into))", new: "clean, f := raw, (*Fault)(nil)"},
	},
	{
		name: "j02", what: "a member that is there twice is taken (a fault of 2026)", file: "internal/strictjson/check.go",
		exchange: exchange{old: "if names.has(r.keys, name) {", new: "if names.has(r.keys, name) && name == nil {"},
	},
	{
		name: "j03", what: "a condition reads names without regard to case", file: "internal/expr/value.go",
		exchange: exchange{
			old: "\tcase map[string]any:\n\t\tfor _, name",
			new: "\tcase map[string]any:\n\t\tfor _, name := range slices.Sorted(maps.Keys(v)) {\n\t\t\tv[strings.ToLower(name)] = v[name]\n\t\t}\n\t\tfor _, name",
		},
	},
	{
		name: "u01", what: "what an endpoint does not say that it consumed is free (a fault of 2026)", file: "internal/runtime/machine/rules/ledger.go",
		exchange: exchange{old: "if !t.rules.silenceCosts || u.CountedBefore ||", new: "if u.OutputTokens == 0 || !t.rules.silenceCosts || u.CountedBefore ||"},
	},
	{
		name: "u02", what: "the bound that is reserved is not sent (a fault of 2026)", file: "internal/runtime/machine/rules/model.go",
		exchange: exchange{old: "m.Output, m.Bounded = c.Bound.OutputTokens, t.hasBudget() || len(t.input.Billed) > 0", new: "m.Output = c.Bound.OutputTokens"},
	},
	{
		name: "u03", what: "what a call wrote beyond its bound is not settled", file: "internal/runtime/machine/rules/model.go",
		exchange: exchange{
			old: "\tused, err := t.price(t.reported(c, boundOfCall(&t.s.Steps[i])))\n",
			new: "\tsaid := t.reported(c, boundOfCall(&t.s.Steps[i]))\n\tsaid.OutputTokens = min(said.OutputTokens, t.s.Steps[i].Model.Output)\n\tused, err := t.price(said)\n",
		},
	},
	{
		name: "u04", what: "a run goes on that has passed its budget", file: "internal/runtime/machine/rules/budget.go",
		exchange: exchange{old: "limit.Tokens > 0 && t.s.Tokens > limit.Tokens:", new: "limit.Tokens < 0:"},
		more:     []exchange{{old: "limit.CostMicro > 0 && t.s.CostMicro > limit.CostMicro:", new: "limit.CostMicro < 0:"}},
	},
	{
		name: "e09", what: "equal numbers of other spelling are other business keys (a fault of 2026)", file: "internal/runtime/effects/key.go",
		exchange: exchange{old: "return json.Number(strictjson.Decimal(n.String())) }", new: "_ = strictjson.Decimal; return n }"},
	},
	{
		name: "e10", what: "business keys are made of doubles: two numbers beyond 2^53 are one", file: "internal/runtime/effects/key.go",
		exchange: exchange{
			old: "return json.Number(strictjson.Decimal(n.String())) }",
			new: "_ = strictjson.Decimal; f, _ := n.Float64(); return json.Number(strconv.FormatFloat(f, 'f', -1, 64)) }",
		},
	},
	{
		name: "b01", what: "a run's agents may call what it may not (a fault of 2026)", file: "internal/a2a/delegation.go",
		exchange: exchange{old: "\tstart.Policy, _ = d.Policy.Tools()\n", new: ""},
	},
	{
		name: "a01", what: "an answer without an attempt is one to the current attempt (a fault of 2026)", file: "internal/runtime/validate/check.go",
		exchange: exchange{old: "case cmd.Attempt < 1:", new: "case cmd.Attempt < 0:"},
	},
}
