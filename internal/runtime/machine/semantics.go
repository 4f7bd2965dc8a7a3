package machine

// Semantics numbers the rules by which an input makes records. Each input contains the version that applied
// to it. Replay uses that version for ever, also in newer programs. A rule change that alters the records of
// an equal input gets a new version here, and the old form of the rule stays beside the new one. A change
// that only adds a field that old inputs cannot have needs no version.
type Semantics uint32

const (
	// SemanticsFirst applies to inputs without a version, which are older than the field.
	SemanticsFirst Semantics = 1
	// SemanticsEnds: the end of a run records the event that was lost at a bound, and a step that would
	// escalate a run over its budget ends it by the budget.
	SemanticsEnds Semantics = 2
	// SemanticsModels: model usage is priced. A call is refused if its model has no price and there is a cost
	// budget.
	SemanticsModels Semantics = 3
	// SemanticsKinds: the records of a step's answer, denial and end contain the kind of the step, for tools
	// and agents too.
	SemanticsKinds Semantics = 4
	// SemanticsBounds: usage that a model's answer does not report is settled by the bound of its call and
	// marked as estimated. Usage that is never reported stays reserved in every run that has a budget of
	// tokens or cost.
	SemanticsBounds Semantics = 5
	// SemanticsLeases: each delegation of a run with a bound has a lease of it, including tool calls, and
	// passes the tool lists on.
	SemanticsLeases Semantics = 6
	// SemanticsAccounts: the run of an agent of this store is counted separately in the operator's accounts,
	// and the step that began it is not.
	SemanticsAccounts Semantics = 7
	// Current is the version that a host stamps into new inputs.
	Current = SemanticsAccounts
)
