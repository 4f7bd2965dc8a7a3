package main

// clusterMutants are faults of several sidecars on one database. The statements of the real one are
// not in a simulation: where a fault is of those, it is built into what stands for them.
var clusterMutants = []mutant{
	{
		name: "o01", what: "a commit is not fenced by its epoch (the simulated statement)", file: "test/simulation/pg/line.go",
		exchange: exchange{old: "s.epoch != epoch || s.commit != number-1", new: "s.commit != number-1"},
	},
	{
		name: "o02", what: "a call that may have been begun, and has no id, is made again", file: "internal/cluster/router/rules.go",
		exchange: exchange{old: "\t\treturn m.hasID(req) || m.agents &&", new: "\t\treturn !m.agents || m.hasID(req) || m.agents &&"},
	},
	{
		name: "o04", what: "an old owner answers from what it remembers, however long its lease has ended", file: "internal/cluster/router/slot.go",
		exchange: exchange{old: "return !s.until.IsZero() && !time.Now().Before(s.until) }", new: "return false }"},
	},
	{
		name: "o05", what: "a stream goes on one record too early at the next owner", file: "internal/cluster/router/resume.go",
		exchange: exchange{
			old: "\t\tp.cursor = string(fieldOf(record, cursorOfRecord))\n",
			new: "\t\tp.cursor, p.before = p.before, string(fieldOf(record, cursorOfRecord))\n\t\tif p.cursor == \"\" {\n\t\t\tp.cursor = p.before\n\t\t}\n",
		},
		more: []exchange{{old: "\tcursor string\n\t// output", new: "\tcursor, before string\n\t// output"}},
	},
	{
		name: "o06", what: "a stream goes on from now at the next owner, whatever was told", file: "internal/cluster/router/resume.go",
		exchange: exchange{old: "rest.AfterCursor, rest.AfterSeq, rest.FromNow = output.cursor, 0, false", new: "rest.AfterCursor, rest.AfterSeq, rest.FromNow = \"\", 0, true"},
	},
	{
		name: "o07", what: "a call of another node is made at the house of the first partition, whatever number comes with it", file: "internal/cluster/transport/server.go",
		exchange: exchange{old: "s.cfg.Router.Local(ctx, part, ", new: "s.cfg.Router.Local(ctx, part*0, "},
		more:     []exchange{{old: "s.cfg.Router.LocalStream(part, ", new: "s.cfg.Router.LocalStream(part*0, "}},
	},
	{
		name: "o08", what: "a stream of a namespace goes to the first partition", file: "internal/cluster/router/stream.go",
		exchange: exchange{old: "r.serverStreamAt(ctx, r.partOf(ctx, req), method", new: "r.serverStreamAt(ctx, r.partOf(ctx, nil), method"},
	},
	{
		name: "o09", what: "every call goes to the owner of the first partition", file: "internal/cluster/membership/node.go",
		exchange: exchange{old: "owner := n.view.part(part).Owner; n.isOtherNode", new: "owner := n.view.part(part * 0).Owner; n.isOtherNode"},
	},
	{
		name: "o10", what: "a beat renews the leases of all partitions, whoever has them (the simulated statement)", file: "test/simulation/pg/rows.go",
		exchange: exchange{old: "if p.node() == me.ID && p.epoch == kept[id].Load() && ", new: "if p.owner != \"\" && "},
	},
	{
		name: "o11", what: "a beat renews the lease of a partition that the process has no more (the simulated statement)", file: "test/simulation/pg/rows.go",
		exchange: exchange{old: "p.node() == me.ID && p.epoch == kept[id].Load() && ", new: "p.node() == me.ID && "},
	},
	{
		name: "o12", what: "the lease of one partition counts for all that a node has", file: "internal/cluster/membership/poll.go",
		exchange: exchange{
			old: "\tif part.Owner.ID == n.cfg.Self.ID {\n\t\tp.extendLease(",
			new: "\tfor _, part := range n.view.Parts {\n\t\tif part.Owner.ID != n.cfg.Self.ID {\n\t\t\tcontinue\n\t\t}\n\t\tp.extendLease(",
		},
	},
	{
		name: "o13", what: "nodes give away although their shares are even", file: "internal/cluster/membership/balance.go",
		exchange: exchange{
			old: "\t\tnext, found := v.move(loads, owners)\n",
			new: "\t\tnext, found := v.move(loads, owners)\n" +
				"\t\tif p := v.Parts[len(v.Parts)-1]; !found && len(moves) == 0 && p.ID > 0 {\n" +
				"\t\t\tnext = move{part: p.ID, from: p.Owner.ID, to: v.fewest(p, loads, func(id string) bool { return id == p.Owner.ID })}\n" +
				"\t\t\tfound = next.to != \"\" && loads[next.from] >= loads[next.to]\n\t\t}\n",
		},
	},
	{
		name: "o14", what: "a node keeps what is more than its share", file: "internal/cluster/membership/balance.go",
		exchange: exchange{old: "m.from == n.cfg.Self.ID && p != nil && p.phase == open", new: "m.from == n.cfg.Self.ID && p != nil && p.phase == closing"},
	},
	{
		name: "o15", what: "a take-over reads first what the first partition has (the simulated statement)", file: "test/simulation/pg/view.go",
		exchange: exchange{
			old: "\ts.pairs, s.group = p.pairs.Copy(), p.commit\n",
			new: "\ts.pairs, s.group = p.pairs.Copy(), p.commit\n\tif looks[s.db]++; looks[s.db] == 1 && server.now.parts[0] != nil {\n\t\ts.pairs = server.now.parts[0].pairs.Copy()\n\t}\n",
		},
		more: []exchange{{old: "var errForeign = ", new: "var looks = map[*DB]int{}\n\nvar errForeign = "}},
	},
	{
		name: "o16", what: "a message without an id that waits is let go as not begun when its node ends", file: "internal/a2a/stream.go",
		exchange: exchange{old: "if err != nil && m.id != \"\" {\n\t\treturn nil, cause(stay, err)", new: "if err != nil {\n\t\treturn nil, cause(stay, err)"},
	},
	{
		name: "o17", what: "a message that streams is sent again until its stream has told something", file: "internal/cluster/router/rules.go",
		exchange: exchange{
			old: "a2apb.A2AService_SendStreamingMessage_FullMethodName:             NoRetry,",
			new: "a2apb.A2AService_SendStreamingMessage_FullMethodName:             RetryUntilFirst,",
		},
	},
	{
		name: "o18", what: "a message that waits is sent again when its node is lost, whether it has an id or not", file: "internal/cluster/router/rules.go",
		exchange: exchange{
			old: "a2apb.A2AService_SendMessage_FullMethodName:                      IdempotentByKey, // the id is the header Idempotency-Key",
			new: "a2apb.A2AService_SendMessage_FullMethodName:                      Idempotent,",
		},
	},
}
