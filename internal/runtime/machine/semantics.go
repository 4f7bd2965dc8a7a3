package machine

// Semantics numbers the rules by which an input makes records. Each input says the
// version that it was taken by; replay goes by that version for ever, whatever newer
// programs do. A rule that changes what an equal input makes gets a new version here
// and keeps its old form beside the new one; what only adds a field that old inputs
// cannot carry needs none.
type Semantics uint32

const (
	// SemanticsFirst is meant by inputs that say none: they are older than the number.
	SemanticsFirst Semantics = 1
	// SemanticsEnds: the end of a run tells the event that was lost at a bound, and a
	// step that would escalate a run over its budget ends it by the budget.
	SemanticsEnds Semantics = 2
	// SemanticsModels: what models take is priced, and refused where it has no price and
	// a budget of cost to be held to.
	SemanticsModels Semantics = 3
	// SemanticsKinds: what is told of a step, its answer, its denial, its end, says what
	// kind of step it is, of tools and agents too.
	SemanticsKinds Semantics = 4
	// SemanticsBounds: what an answer of a model does not report is settled by the bound of
	// its call, marked as estimated; what nobody tells of stays reserved in every run that has
	// a budget of tokens or cost.
	SemanticsBounds Semantics = 5
	// SemanticsLeases: each delegation of a run with a bound has a lease of it, of tool calls
	// too, and takes the lists of tools along.
	SemanticsLeases Semantics = 6
	// SemanticsAccounts: the run of an agent of this store counts itself in the operator's
	// accounts, and the step that began it does not.
	SemanticsAccounts Semantics = 7
	// Current is the version that a host stamps into new inputs.
	Current = SemanticsAccounts
)
