package policy

import (
	"slices"
	"strings"
)

// Scopes is a set of rights.
type Scopes uint16

const (
	// PacksWrite validates and registers packs.
	PacksWrite Scopes = 1 << iota
	// RunsWrite starts and drives runs.
	RunsWrite
	// RunsRead reads packs, runs and records.
	RunsRead
	// EventsExternal moves runs out of states of orchestration external or
	// hybrid without the turn's token.
	EventsExternal
	// Work executes turns and steps as a worker.
	Work
	// Admin may, besides everything else, enter a workflow in the middle and
	// answer any step.
	Admin
	// RunsDelete deletes runs that have ended.
	RunsDelete
	// ValuesSensitive reads values that a pack calls sensitive; by itself it admits to
	// nothing.
	ValuesSensitive
	// StoreRead reads the whole store at once: backups, proofs, figures.
	StoreRead
	// RunsErase erases the values of runs that have ended.
	RunsErase
	// BudgetsWrite lets runs spend more than they may.
	BudgetsWrite
	// StepsApprove decides about calls that are held for a person.
	StepsApprove
)

const (
	// AllScopes is every right.
	AllScopes = PacksWrite | RunsWrite | RunsRead | EventsExternal | Work | Admin | RunsDelete | ValuesSensitive | StoreRead | RunsErase | BudgetsWrite | StepsApprove
	// AnonymousScopes are everybody's rights while authentication is off.
	AnonymousScopes = AllScopes &^ Admin
)

// scopeNames are in the order of the bits.
var scopeNames = []string{"packs:write", "runs:write", "runs:read", "events:external", "work", "admin", "runs:delete", "values:sensitive", "store:read", "runs:erase", "budgets:write", "steps:approve"}

// Has reports whether all of want are in the set; Admin holds every right.
func (s Scopes) Has(want Scopes) bool { return s&Admin != 0 || s&want == want }

// Any reports whether one of want is in the set; Admin holds every right.
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

// Bounded leaves those rights of the set that are within another; Admin holds every
// right.
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

// ScopeByName finds one scope by its name on the wire.
func ScopeByName(name string) (Scopes, bool) {
	for i, known := range scopeNames {
		if known == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// AnonymousName is the principal of everyone while authentication is off.
const AnonymousName = "anonymous"

// Principal is an authenticated caller.
type Principal struct {
	// Name is recorded on everything that the principal causes.
	Name   string
	Scopes Scopes
	// Namespaces are the only ones that exist for the principal, the first being what
	// its calls mean that name none; nil = every one that is served, and the default.
	Namespaces []string
	// Own: it is the sidecar itself, by what no file of rights can give.
	Own bool
}

// Bound reports whether the principal is kept to some namespaces.
func (p Principal) Bound() bool { return p.Namespaces != nil }

// In reports whether a namespace exists for the principal, as far as its rights say.
func (p Principal) In(namespace string) bool {
	return !p.Bound() || slices.Contains(p.Namespaces, namespace)
}

// Home is what a call of the principal means that names no namespace; "" = the default.
func (p Principal) Home() string {
	if len(p.Namespaces) == 0 {
		return ""
	}
	return p.Namespaces[0]
}

// Names of the sidecar itself, which no caller may have: of what nobody asked for and of
// delegations, of what it does at its start and for its figures, of who looks cards up, and
// of the rules of retention.
const (
	OwnName       = "pawl"
	SidecarName   = "sidecar"
	CardsName     = "a2a"
	RetentionName = "retention"
)

// Reserved are the names that no caller may have.
func Reserved() []string {
	return []string{AnonymousName, OwnName, SidecarName, CardsName, RetentionName}
}

// Anonymous is the caller while authentication is off: every right but Admin.
func Anonymous() Principal { return Principal{Name: AnonymousName, Scopes: AnonymousScopes} }

// Answerer is the principal of an answer that was kept with the names of its rights.
// Names that are not known give no right.
func Answerer(name string, scopes []string) Principal {
	p := Principal{Name: name}
	for _, s := range scopes {
		scope, _ := ScopeByName(s)
		p.Scopes |= scope
	}
	return p
}

// BehalfMark parts the names of who speaks and in whose name; no principal that
// authentication makes has it in its own.
const BehalfMark = ">"

// Behalf is the principal of what p says in another's name, where the sidecar of p is
// not this one: nobody here has seen the other. So it has no right that p lacks, and a
// name that no principal of this sidecar has: "p>other".
func (p Principal) Behalf(of Principal) Principal {
	return Principal{Name: p.Name + BehalfMark + of.Name, Scopes: of.Scopes.Bounded(p.Scopes), Namespaces: p.Namespaces}
}

// MaySeeRuns reports whether runs exist at all for the principal. To one that
// may not, every run is as absent as one that never was.
func (p Principal) MaySeeRuns() bool {
	return p.Scopes.Any(RunsRead | RunsWrite | EventsExternal | RunsDelete | RunsErase | BudgetsWrite | StepsApprove)
}
