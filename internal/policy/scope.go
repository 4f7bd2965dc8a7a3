package policy

import "strings"

// Scopes is a set of rights.
type Scopes uint16

const (
	// PacksWrite validates and registers packs.
	PacksWrite Scopes = 1 << iota
	// RunsWrite starts runs and sends them inputs and commands.
	RunsWrite
	// RunsRead reads packs, runs and records.
	RunsRead
	// EventsExternal moves runs out of states of orchestration external or
	// hybrid without the turn's token.
	EventsExternal
	// Work executes turns and steps as a worker.
	Work
	// Admin allows everything. Only Admin can start a workflow in the middle and answer any step.
	Admin
	// RunsDelete deletes runs that have ended.
	RunsDelete
	// ValuesSensitive reads values that a pack marks as sensitive; by itself it allows no operation.
	ValuesSensitive
	// StoreRead reads the whole store at once: backups, proofs, statistics.
	StoreRead
	// RunsErase erases the values of runs that have ended.
	RunsErase
	// BudgetsWrite raises the budgets of runs.
	BudgetsWrite
	// StepsApprove decides about held calls.
	StepsApprove
	// AnswerFor passes on answers in the names of others, which may be unknown here; by itself it allows no
	// operation.
	AnswerFor
)

const (
	// AllScopes is every right.
	AllScopes = PacksWrite | RunsWrite | RunsRead | EventsExternal | Work | Admin | RunsDelete | ValuesSensitive | StoreRead | RunsErase | BudgetsWrite | StepsApprove | AnswerFor
	// AnonymousScopes are the scopes of every caller while authentication is off.
	AnonymousScopes = AllScopes &^ Admin
)

// scopeNames are the names of the scopes, in the order of the bits.
var scopeNames = []string{"packs:write", "runs:write", "runs:read", "events:external", "work", "admin", "runs:delete", "values:sensitive", "store:read", "runs:erase", "budgets:write", "steps:approve", "tasks:answer-for"}

// Has reports whether all scopes of want are in the set. Admin includes every scope.
func (s Scopes) Has(want Scopes) bool { return s&Admin != 0 || s&want == want }

// Any reports whether at least one scope of want is in the set. Admin includes every scope.
func (s Scopes) Any(want Scopes) bool { return s&(want|Admin) != 0 }

// Names lists the scopes of the set.
func (s Scopes) Names() []string {
	var names []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Bounded returns the scopes that are in both sets. Admin includes every scope.
func (s Scopes) Bounded(by Scopes) Scopes {
	switch {
	case by&Admin != 0:
		return s
	case s&Admin != 0:
		return by
	}
	return s & by
}

// String joins the names with spaces.
func (s Scopes) String() string { return strings.Join(s.Names(), " ") }

// ScopeByName returns the scope with this name in the contract.
func ScopeByName(name string) (Scopes, bool) {
	for i, known := range scopeNames {
		if known == name {
			return 1 << i, true
		}
	}
	return 0, false
}
