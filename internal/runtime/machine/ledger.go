package machine

// CmdRaiseBudget is the number of [RaiseBudget].
const CmdRaiseBudget CommandKind = 53

// RecBudgetRaised is the number of [BudgetRaised].
const RecBudgetRaised RecordKind = 38

// CauseBudget: a step was refused that the budget does not hold (x_pawl.on_budget).
const CauseBudget Cause = 5

// MaxUnreportedUsage bounds what a run remembers of calls that nobody tells of; what is behind it is
// taken for consumed.
const MaxUnreportedUsage = 64

type (
	// Amount is what ledgers count; each part is 0 or more. ToolCalls are counted in leases
	// alone: what an agent's run may make, never what a run may in all.
	Amount struct{ Tokens, CostMicro, ToolCalls int64 }
	// Account is what holds of a run's budget where that is not the pack's word alone.
	Account struct {
		// Limit takes the place of the pack's max_tokens and max_cost_usd; 0 = no limit. Its
		// ToolCalls are those of a lease, and lower the pack's max_tool_calls.
		Limit Amount
		// Leased: the run spends of the account of the step that started it, at most Limit.
		Leased bool
		// WrappedUp: x_pawl.on_budget was entered, and the next refusal ends the run.
		WrappedUp bool
		// BudgetNoticeAdded: the next request to a model has to tell how little is left of Limit.
		BudgetNoticeAdded bool
		// Unreported are calls of models of which nobody knows what they consumed: they are reserved
		// until somebody tells, or the run ends. At most [MaxUnreportedUsage], the oldest first.
		Unreported []UnreportedUsage
	}
	// UnreportedUsage is one attempt of a call of a model, and what it may have consumed.
	UnreportedUsage struct {
		Step    uint32
		Attempt int
		Bound   Amount
		// Output are those of the tokens that the model may have written.
		Output int64
	}
	// RaiseBudget lets a run spend more; what is 0 stays as it is.
	RaiseBudget struct {
		To     Amount
		Reason string
	}
	// BudgetRaised is an act of RaiseBudget: the limits before and behind it.
	BudgetRaised struct {
		From, To Amount
		Reason   string
	}
)

func (RaiseBudget) command() CommandKind { return CmdRaiseBudget }
func (*BudgetRaised) record() RecordKind { return RecBudgetRaised }
