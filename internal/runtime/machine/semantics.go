package machine

// Semantics is the version of the rules by which an input makes records. Each input contains the
// version that applied to it. Every replay uses this version, also in newer programs. If a change of
// the rules alters the records of an equal input, it gets a new version here, and the code keeps the
// old rule together with the new one. A change that only adds a field that old inputs cannot have needs
// no version.
type Semantics uint32

const (
	// SemanticsFirst applies to inputs without a version. Such inputs were made before the field
	// existed.
	SemanticsFirst Semantics = 1
	// SemanticsEnds changes two rules. The end of a run records the event that a bound prevented. If a
	// failed step would escalate a run that is over a budget, the run ends because of the budget.
	SemanticsEnds Semantics = 2
	// SemanticsModels computes the cost of model usage from prices. If there is a cost budget and the
	// model of a call has no price, the call is refused.
	SemanticsModels Semantics = 3
	// SemanticsKinds means that the records of a step's answer, denial and end contain the kind of the
	// step, also for tools and agents.
	SemanticsKinds Semantics = 4
	// SemanticsBounds handles usage that is not reported. If a model's answer does not report its
	// usage, the bound of the call is settled and marked as estimated. Usage that is never reported
	// stays reserved in every run with a budget of tokens or cost.
	SemanticsBounds Semantics = 5
	// SemanticsLeases gives a lease to each delegation of a run with a bound. The lease contains this
	// bound, including tool calls. The tool lists are sent with the delegation.
	SemanticsLeases Semantics = 6
	// SemanticsAccounts makes the operator's accounts count the run of an agent of this store
	// separately. The step that began the agent's run is no longer counted.
	SemanticsAccounts Semantics = 7
	// Current is the version that the engine stamps into new inputs.
	Current = SemanticsAccounts
)
