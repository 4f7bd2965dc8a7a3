package policy

import (
	"slices"
	"strings"
)

// AnonymousName is the principal of every caller while authentication is off.
const AnonymousName = "anonymous"

// Proof is how the name of a principal was authenticated.
type Proof uint8

const (
	// Recorded: the name was not authenticated now. It comes from the store or the operator's configuration,
	// or is one of the sidecar's own.
	Recorded Proof = iota
	// Unauthenticated: authentication is off, and every caller has the same name.
	Unauthenticated
	// ByToken: a bearer token of the tokens file.
	ByToken
	// ByIssuer: a JSON web token of an issuer.
	ByIssuer
	// ByCertificate: a client certificate.
	ByCertificate
	// BySidecar: the secret that the process made for itself; no configuration file can grant it.
	BySidecar
	// Claimed: the caller claims the name, which needs the scope AnswerFor.
	Claimed
	// ByLink: a signed decision link, which another principal has made.
	ByLink
)

// Identity is a name by its parts: the subject, and the principals through which its request came. Identities
// are compared by their parts; the text of one, by [Identity.String], is for storage and display.
type Identity struct {
	// Subject is the principal that made the statement.
	Subject string
	// Chain are the principals that passed it on, the caller of this sidecar first; nil = the subject called.
	Chain []string
}

// chainMark separates the parts of a stored name. Authentication never accepts a name that contains it.
const chainMark = ">"

// IsPrincipalName reports whether a text can be the name of a principal that speaks for itself: it contains
// no mark of a chain.
func IsPrincipalName(name string) bool { return name != "" && !strings.Contains(name, chainMark) }

// IdentityOf reads the stored form of a name: "bridge>dave" is a statement of dave that bridge passed on.
func IdentityOf(stored string) Identity {
	parts := strings.Split(stored, chainMark)
	last := len(parts) - 1
	if last == 0 {
		return Identity{Subject: stored}
	}
	return Identity{Subject: parts[last], Chain: parts[:last:last]}
}

// String returns the stored form; [IdentityOf] reads it.
func (i Identity) String() string {
	if len(i.Chain) == 0 {
		return i.Subject
	}
	return strings.Join(i.Chain, chainMark) + chainMark + i.Subject
}

// Parts returns the names in it, the caller's first.
func (i Identity) Parts() []string { return append(slices.Clone(i.Chain), i.Subject) }

// Speaker returns the principal that called: the one that was authenticated.
func (i Identity) Speaker() string {
	if len(i.Chain) > 0 {
		return i.Chain[0]
	}
	return i.Subject
}

// Shares reports whether one principal is part of both identities, as the subject or in the chain.
func (i Identity) Shares(other Identity) bool {
	mine := i.Parts()
	return slices.ContainsFunc(other.Parts(), func(part string) bool { return slices.Contains(mine, part) })
}

// Principal is a caller, or the author of a statement, with its scopes.
type Principal struct {
	// Subject is the author: the caller, unless Chain names the caller.
	Subject string
	// Chain are the principals that passed the statement on; see [Identity].
	Chain  []string
	Scopes Scopes
	// Namespaces are the only ones that exist for the principal. Its calls without a namespace use the first
	// of them. nil = every namespace that is served, and the default for calls without one.
	Namespaces []string
	// Proof is how the subject was authenticated.
	Proof Proof
}

// Identity returns the name by its parts.
func (p Principal) Identity() Identity { return Identity{Subject: p.Subject, Chain: p.Chain} }

// Name returns the one text under which all actions of the principal are recorded.
func (p Principal) Name() string { return p.Identity().String() }

// Speaker returns the principal that called; quotas are charged to it.
func (p Principal) Speaker() string { return p.Identity().Speaker() }

// Owns reports whether a stored owner is exactly this principal: the same subject through the same chain. A
// principal with a chain owns nothing of the principals in it.
func (p Principal) Owns(stored string) bool {
	owner := IdentityOf(stored)
	return owner.Subject == p.Subject && slices.Equal(owner.Chain, p.Chain)
}

// Own reports whether the principal is the sidecar itself, as a caller of its own services.
func (p Principal) Own() bool { return p.Proof == BySidecar }

// Bound reports whether the principal is limited to some namespaces.
func (p Principal) Bound() bool { return p.Namespaces != nil }

// In reports whether a namespace exists for the principal, according to its rights.
func (p Principal) In(namespace string) bool {
	return !p.Bound() || slices.Contains(p.Namespaces, namespace)
}

// DefaultNamespace returns the namespace of the principal's calls that name none; "" = the default.
func (p Principal) DefaultNamespace() string {
	if len(p.Namespaces) == 0 {
		return ""
	}
	return p.Namespaces[0]
}

// MaySeeRuns reports whether the principal may see runs. For a principal that may not, every run is reported
// as not existing.
func (p Principal) MaySeeRuns() bool {
	return p.Scopes.Any(RunsRead | RunsWrite | EventsExternal | RunsDelete | RunsErase | BudgetsWrite | StepsApprove)
}

// Names of the sidecar itself, which no caller may have: for internal inputs and delegations, for its actions
// at start and for metrics, for readers of agent cards, and for the retention rules.
const (
	OwnName       = "pawl"
	SidecarName   = "sidecar"
	CardsName     = "a2a"
	RetentionName = "retention"
)

// Reserved returns the names that no caller may have.
func Reserved() []string {
	return []string{AnonymousName, OwnName, SidecarName, CardsName, RetentionName}
}

// Anonymous returns the caller while authentication is off: every scope but Admin. It may pass on statements
// of others, which gives it no rights: it has no name of its own, the chain of what it passes on contains
// "anonymous", and an approval that excludes the starter is refused because of that part.
func Anonymous() Principal {
	return Principal{Subject: AnonymousName, Scopes: AnonymousScopes, Proof: Unauthenticated}
}

// Answerer returns the principal of an answer that was stored with the names of its scopes. Unknown names
// give no scope.
func Answerer(stored string, scopes []string) Principal {
	by := IdentityOf(stored)
	p := Principal{Subject: by.Subject, Chain: by.Chain}
	for _, s := range scopes {
		scope, _ := ScopeByName(s)
		p.Scopes |= scope
	}
	return p
}

// Behalf returns the principal for a statement that p passes on in another name, from a sidecar that
// authenticated the other principal. It needs the scope AnswerFor. The result has only the scopes that both
// have, and p is the first part of its name.
func (p Principal) Behalf(of Principal) (Principal, error) {
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

// Wire is a principal as it is sent to another node of a cluster, which may have another version: names are
// in their stored form, and Own is beside the proof, because older nodes do not send the proof.
type Wire struct {
	Name       string   `json:"Name"`
	Scopes     Scopes   `json:"Scopes"`
	Namespaces []string `json:"Namespaces"`
	Own        bool     `json:"Own"`
	Proof      Proof    `json:"Proof"`
}

// Wire returns the principal as it is sent.
func (p Principal) Wire() Wire {
	return Wire{Name: p.Name(), Scopes: p.Scopes, Namespaces: p.Namespaces, Own: p.Own(), Proof: p.Proof}
}

// Principal returns the principal that was sent.
func (w Wire) Principal() Principal {
	by := IdentityOf(w.Name)
	p := Principal{Subject: by.Subject, Chain: by.Chain, Scopes: w.Scopes, Namespaces: w.Namespaces, Proof: w.Proof}
	if w.Own {
		p.Proof = BySidecar
	}
	return p
}
