package main

// clusterMutants are faults of several sidecars on one database. The statements of the real one are
// not in a simulation: where a fault is of those, it is built into what stands for them.
var clusterMutants = []mutant{
	{
		name: "o01", what: "a commit is not fenced by its epoch (the simulated statement)", file: "internal/sim/pgkv/line.go",
		exchange: exchange{old: "s.epoch != epoch || s.commit != number-1", new: "s.commit != number-1"},
	},
	{
		name: "o02", what: "a call that may have been begun, and has no id, is made again", file: "internal/cluster/route/rules.go",
		exchange: exchange{old: "\t\treturn m.named(req) || m.agents &&", new: "\t\treturn !m.agents || m.named(req) || m.agents &&"},
	},
	{
		name: "o04", what: "an old owner answers from what it remembers, however long its lease has ended", file: "internal/cluster/route/seat.go",
		exchange: exchange{old: "return !s.until.IsZero() && !time.Now().Before(s.until) }", new: "return false }"},
	},
	{
		name: "o05", what: "a stream goes on one record too early at the next owner", file: "internal/cluster/route/follow.go",
		exchange: exchange{
			old: "\t\tp.cursor = string(fieldOf(record, cursorOfRecord))\n",
			new: "\t\tp.cursor, p.before = p.before, string(fieldOf(record, cursorOfRecord))\n\t\tif p.cursor == \"\" {\n\t\t\tp.cursor = p.before\n\t\t}\n",
		},
		more: []exchange{{old: "\tcursor string\n\t// output", new: "\tcursor, before string\n\t// output"}},
	},
	{
		name: "o06", what: "a stream goes on from now at the next owner, whatever was told", file: "internal/cluster/route/follow.go",
		exchange: exchange{old: "rest.AfterCursor, rest.AfterSeq, rest.FromNow = told.cursor, 0, false", new: "rest.AfterCursor, rest.AfterSeq, rest.FromNow = \"\", 0, true"},
	},
}
