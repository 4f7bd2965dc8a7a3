package policy

import (
	"slices"
	"strings"
)

// AnonymousName is the principal of every caller while authentication is off.
const AnonymousName = "anonymous"

// Proof is the way in which the name of a principal was authenticated.
type Proof uint8

const (
	// Recorded means that the name was not authenticated in this call. It comes from the store or the operator's
	// configuration, or it is a name of the sidecar itself.
	Recorded Proof = iota
	// Unauthenticated means that authentication is off, so every caller has the same name.
	Unauthenticated
	// ByToken means a bearer token of the tokens file.
	ByToken
	// ByIssuer means a JSON web token of an issuer.
	ByIssuer
	// ByCertificate means a client certificate.
	ByCertificate
	// BySidecar means the secret that the process made for itself. No configuration file can grant it.
	BySidecar
	// Claimed means that the caller claims the name, which needs the scope AnswerFor.
	Claimed
	// ByLink means a signed decision link that another principal has made.
	ByLink
)

// Identity is the name of a principal in parts: the subject, and the principals that passed its request on. Identities are compared by
// their parts. [Identity.String] returns the text for storage and display.
type Identity struct {
	// Subject is the principal that made the statement.
	Subject string
	// Chain are the principals that passed the request on for the subject. The first is the caller of this sidecar.
	// If it is nil, the subject itself is the caller.
	Chain []string
}

// chainMark separates the parts of a stored name. Authentication never accepts a name that contains it.
const chainMark = ">"

// IsPrincipalName reports whether a text can be the name of a principal without a chain: it is not empty and does not contain the mark of
// a chain.
func IsPrincipalName(name string) bool { return name != "" && !strings.Contains(name, chainMark) }

// IdentityOf reads the stored form of a name. For example, "bridge>dave" is a statement of dave that bridge passed on.
func IdentityOf(stored string) Identity {
	parts := strings.Split(stored, chainMark)
	last := len(parts) - 1
	if last == 0 {
		return Identity{Subject: stored}
	}
	return Identity{Subject: parts[last], Chain: parts[:last:last]}
}

// String returns the stored form of the identity. [IdentityOf] reads it.
func (i Identity) String() string {
	if len(i.Chain) == 0 {
		return i.Subject
	}
	return strings.Join(i.Chain, chainMark) + chainMark + i.Subject
}

// Parts returns the names in the identity. The name of the sidecar's caller comes first.
func (i Identity) Parts() []string { return append(slices.Clone(i.Chain), i.Subject) }

// Speaker returns the principal that called the sidecar and was authenticated.
func (i Identity) Speaker() string {
	if len(i.Chain) > 0 {
		return i.Chain[0]
	}
	return i.Subject
}

// SharesPrincipal reports whether some principal is part of both identities, as the subject or in the chain.
func (i Identity) SharesPrincipal(other Identity) bool {
	mine := i.Parts()
	return slices.ContainsFunc(other.Parts(), func(part string) bool { return slices.Contains(mine, part) })
}

// Principal is the author of a request, with its scopes. It is the caller, or a principal from which the caller
// passes the request on.
type Principal struct {
	// Subject is the author of the request. It is also the caller if Chain is empty.
	Subject string
	// Chain are the principals that passed the request on; see [Identity].
	Chain  []string
	Scopes Scopes
	// Namespaces are the only namespaces that exist for the principal. Its calls that name no namespace use the first of them. If it is nil,
	// all served namespaces exist, and these calls use the default namespace.
	Namespaces []string
	// Proof is how the subject was authenticated.
	Proof Proof
}

// Identity returns the name of the principal in parts.
func (p Principal) Identity() Identity { return Identity{Subject: p.Subject, Chain: p.Chain} }

// Name returns the text under which all actions of the principal are recorded.
func (p Principal) Name() string { return p.Identity().String() }

// Speaker returns the principal that called the sidecar. Quotas are charged to it.
func (p Principal) Speaker() string { return p.Identity().Speaker() }

// Owns reports whether the owner in a stored row is exactly this principal: the same subject through the same chain.
// A principal with a chain does not own what the principals in its chain own.
func (p Principal) Owns(stored string) bool {
	owner := IdentityOf(stored)
	return owner.Subject == p.Subject && slices.Equal(owner.Chain, p.Chain)
}

// Own reports whether the principal is the sidecar itself, when it calls its own services.
func (p Principal) Own() bool { return p.Proof == BySidecar }

// Bound reports whether the principal is limited to some namespaces.
func (p Principal) Bound() bool { return p.Namespaces != nil }

// In reports whether a principal may use a namespace.
func (p Principal) In(namespace string) bool {
	return !p.Bound() || slices.Contains(p.Namespaces, namespace)
}

// DefaultNamespace returns the namespace of the principal's calls that name no namespace; "" = the default namespace.
func (p Principal) DefaultNamespace() string {
	if len(p.Namespaces) == 0 {
		return ""
	}
	return p.Namespaces[0]
}

// MaySeeRuns reports whether the principal may see runs. If it may not, every run is reported to it as not existing.
func (p Principal) MaySeeRuns() bool {
	return p.Scopes.Any(RunsRead | RunsWrite | EventsExternal | RunsDelete | RunsErase | BudgetsWrite | StepsApprove)
}

// These are names of the sidecar itself, which no caller may have. They are used for internal inputs and delegations,
// for actions at start and for metrics, for readers of agent cards, and for the retention rules.
const (
	OwnName       = "pawl"
	SidecarName   = "sidecar"
	CardsName     = "a2a"
	RetentionName = "retention"
)

// Reserved returns the names that no authenticated caller may have: those of the sidecar itself, and [AnonymousName].
func Reserved() []string {
	return []string{AnonymousName, OwnName, SidecarName, CardsName, RetentionName}
}

// Anonymous returns the principal of every caller while authentication is off. It has every scope but Admin. It may pass on statements of
// others. This gives it no further rights: it has no name of its own, and the chain of its statements contains "anonymous", so an
// approval that excludes the starter is refused.
func Anonymous() Principal {
	return Principal{Subject: AnonymousName, Scopes: AnonymousScopes, Proof: Unauthenticated}
}

// Answerer returns the principal that gave a stored answer to an agent's question. It is made from the stored name
// and names of scopes. Unknown scope names are ignored.
func Answerer(stored string, scopes []string) Principal {
	by := IdentityOf(stored)
	p := Principal{Subject: by.Subject, Chain: by.Chain}
	for _, s := range scopes {
		scope, _ := ScopeByName(s)
		p.Scopes |= scope
	}
	return p
}

// OnBehalfOf returns the principal for a request that p passes on for another principal, which another sidecar
// authenticated. p needs the scope AnswerFor. The result has only the scopes that both have, and p is the first part
// of its name.
func (p Principal) OnBehalfOf(of Principal) (Principal, error) {
	if !p.Scopes.Has(AnswerFor) {
		return Principal{}, &Denied{
			Reason: "SCOPE_MISSING", Field: "answerer", Scopes: AnswerFor,
			Message: "principal " + quote(p.Name()) + " may not pass on an answer in the name of " + quote(of.Name()) +
				": that takes the scope " + AnswerFor.String() + "; without it, answer without naming another principal",
		}
	}
	return Principal{
		Subject: of.Subject, Chain: append(p.Identity().Parts(), of.Chain...),
		Scopes: of.Scopes.Bounded(p.Scopes), Namespaces: p.Namespaces, Proof: Claimed,
	}, nil
}

// Wire is a principal in the form that is sent to another node of a cluster. The other node may have another version.
// Names are in their stored form. Own is sent in addition to the proof, because older nodes do not send the proof.
type Wire struct {
	Name       string   `json:"Name"`
	Scopes     Scopes   `json:"Scopes"`
	Namespaces []string `json:"Namespaces"`
	Own        bool     `json:"Own"`
	Proof      Proof    `json:"Proof"`
}

// Wire returns the principal in the form that is sent.
func (p Principal) Wire() Wire {
	return Wire{Name: p.Name(), Scopes: p.Scopes, Namespaces: p.Namespaces, Own: p.Own(), Proof: p.Proof}
}

// Principal returns the principal from the form that was sent.
func (w Wire) Principal() Principal {
	by := IdentityOf(w.Name)
	p := Principal{Subject: by.Subject, Chain: by.Chain, Scopes: w.Scopes, Namespaces: w.Namespaces, Proof: w.Proof}
	if w.Own {
		p.Proof = BySidecar
	}
	return p
}

// Scopes is a set of rights.
type Scopes uint16

const (
	// PacksWrite validates and registers packs.
	PacksWrite Scopes = 1 << iota
	// RunsWrite starts runs and sends them inputs and commands.
	RunsWrite
	// RunsRead reads packs, runs and records.
	RunsRead
	// EventsExternal allows a caller without the turn's token to move a run out of a state, if the state's
	// orchestration is external or hybrid.
	EventsExternal
	// Work executes turns and steps as a worker.
	Work
	// Admin allows everything. Only Admin can start a workflow in the middle and answer any step.
	Admin
	// RunsDelete deletes runs that have ended.
	RunsDelete
	// ValuesSensitive allows a principal to read values that a pack marks as sensitive; by itself it allows no
	// operation.
	ValuesSensitive
	// StoreRead reads the whole store at once: backups, proofs, statistics.
	StoreRead
	// RunsErase erases the values of runs that have ended.
	RunsErase
	// BudgetsWrite raises the budgets of runs.
	BudgetsWrite
	// StepsApprove decides about held calls.
	StepsApprove
	// AnswerFor allows a caller to pass on answers in the names of other principals, which may be unknown here; by
	// itself it allows no operation.
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

// ScopeByName returns the scope with this name, for example "runs:read".
func ScopeByName(name string) (Scopes, bool) {
	for i, known := range scopeNames {
		if known == name {
			return 1 << i, true
		}
	}
	return 0, false
}
