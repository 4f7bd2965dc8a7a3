package machine

// Semantics is the version of the rules by which an input makes records. Each input contains the version that applied to it, and a replay
// uses this version for ever, also in newer programs. If a change of the rules alters the records of an equal input, it gets a new
// version here, and the old rule stays beside the new one. A change that only adds a field that old inputs cannot have needs no version.
type Semantics uint32

const (
	// SemanticsFirst applies to inputs without a version. They were made before the field existed.
	SemanticsFirst Semantics = 1
	// SemanticsEnds makes the end of a run record the event that a bound prevented. If a failed step would escalate a run that is over a
	// budget, the budget ends the run.
	SemanticsEnds Semantics = 2
	// SemanticsModels gives model usage a price. A call is refused if its model has no price and there is a cost budget.
	SemanticsModels Semantics = 3
	// SemanticsKinds makes the records of a step's answer, denial and end contain the kind of the step, for tools and agents too.
	SemanticsKinds Semantics = 4
	// SemanticsBounds settles usage that a model's answer does not report at the bound of its call, marked as estimated. Usage that is never
	// reported stays reserved in every run with a budget of tokens or cost.
	SemanticsBounds Semantics = 5
	// SemanticsLeases gives each delegation of a run with a bound a lease of this bound, including tool calls, and sends the tool lists with
	// it.
	SemanticsLeases Semantics = 6
	// SemanticsAccounts counts the run of an agent of this store separately in the operator's accounts, and not the step that began it.
	SemanticsAccounts Semantics = 7
	// Current is the version that the engine stamps into new inputs.
	Current = SemanticsAccounts
)
