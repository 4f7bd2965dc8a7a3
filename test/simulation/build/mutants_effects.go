package main

// effectMutants are faults of effects, limits and schedules.
var effectMutants = []mutant{
	{
		name: "e01", what: "a business key is not taken with the request, only with the answer", file: "internal/runtime/machine/rules/effect.go",
		exchange: exchange{
			old: "if step.Effect != [32]byte{} {\n\t\tt.effects = append(t.effects, machine.EffectChange{Op: machine.EffectTaken",
			new: "if step.Effect != [32]byte{} && step.Attempt == 0 {\n\t\tt.effects = append(t.effects, machine.EffectChange{Op: machine.EffectTaken",
		},
	},
	{
		name: "e02", what: "a step of which nobody knows gives its business key back", file: "internal/runtime/machine/rules/effect.go",
		exchange: exchange{old: "\tcase !step.Doubt:\n", new: "\tdefault:\n"},
	},
	{
		name: "e03", what: "what happened is taken for what did not, and made once more", file: "internal/runtime/machine/rules/effect.go",
		exchange: exchange{old: "\t\t\tfound, value = happened, reported\n", new: "\t\t\tfound, value = didNot, reported\n"},
	},
	{
		name: "e04", what: "effects are undone first first", file: "internal/runtime/machine/rules/effect.go",
		exchange: exchange{old: "t.s.Effects = append(slices.Clip(t.s.Effects), effect)", new: "t.s.Effects = append([]machine.CompensableEffect{effect}, t.s.Effects...)"},
	},
	{
		name: "e05", what: "a call more is open at once than may be", file: "internal/runtime/ratelimit/bucket.go",
		exchange: exchange{old: "b.open >= b.limit.Concurrent", new: "b.open > b.limit.Concurrent"},
	},
	{
		name: "e06", what: "all instants of a schedule have one id: the second is taken for begun", file: "internal/runtime/schedule/schedule.go",
		exchange: exchange{old: "req.RequestID = Prefix + s.ID + \"/\" + at", new: "req.RequestID = Prefix + s.ID + \"/\" + at[:4]"},
	},
	{
		name: "e07", what: "a result that is refused is told as an error for sure", file: "clients/go/step.go",
		exchange: exchange{old: "status.Convert(why).Message(), Unknown: true}", new: "status.Convert(why).Message()}"},
	},
	{
		name: "e08", what: "a handler's word that it may have happened is not heard", file: "internal/grpcapi/convert/request.go",
		exchange: exchange{old: "\t\tUnknown: req.GetUnknown(),\n", new: ""},
	},
}
