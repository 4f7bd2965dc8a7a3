package machine

// CmdRaiseBudget is the number of [RaiseBudget].
const CmdRaiseBudget CommandKind = 53

// RecBudgetRaised is the number of [BudgetRaised].
const RecBudgetRaised RecordKind = 38

// CauseBudget means that the state was entered because the budget did not cover a step
// (x_pawl.on_budget).
const CauseBudget Cause = 5

// MaxUnreportedUsage bounds the number of calls without reported usage that a run remembers. If there
// are more calls, the maximum consumption of the oldest calls is counted.
const MaxUnreportedUsage = 64

type (
	// Amount is a consumption or a limit. No field is negative. ToolCalls is used only in leases, as a
	// limit for the run of an agent.
	Amount struct{ Tokens, CostMicro, ToolCalls int64 }
	// Account is the part of a run's budget that differs from the budget in its pack.
	Account struct {
		// Limit replaces the pack's max_tokens and max_cost_usd. 0 means that there is no limit. Its
		// ToolCalls come from a lease and lower the pack's max_tool_calls.
		Limit Amount
		// Leased means that the run consumes the budget of the step that started it, at most Limit.
		Leased bool
		// WrappedUp means that the run has entered x_pawl.on_budget. After that, the next refusal ends
		// the run.
		WrappedUp bool
		// BudgetNoticeAdded means that the next request to a model must contain a notice about the
		// small part of Limit that is left.
		BudgetNoticeAdded bool
		// Unreported are model calls whose consumption is not known. Their bounds stay reserved until the consumption is reported or the run
		// ends. The list has at most [MaxUnreportedUsage] calls, the oldest first.
		Unreported []UnreportedUsage
	}
	// UnreportedUsage is one attempt of a model call, with the maximum that it may have consumed.
	UnreportedUsage struct {
		Step    uint32
		Attempt int
		Bound   Amount
		// Output is the part of the tokens that the model may have generated.
		Output int64
	}
	// RaiseBudget raises the limits of a run. A limit of 0 is not changed.
	RaiseBudget struct {
		To     Amount
		Reason string
	}
	// BudgetRaised records a RaiseBudget with the limits before and after it.
	BudgetRaised struct {
		From, To Amount
		Reason   string
	}
)

func (RaiseBudget) command() CommandKind { return CmdRaiseBudget }
func (*BudgetRaised) record() RecordKind { return RecBudgetRaised }
