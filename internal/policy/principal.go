package policy

import (
	"slices"
	"strings"
)

// AnonymousName is the principal of every caller while authentication is off.
const AnonymousName = "anonymous"

// Proof says how the name of a principal came to be known.
type Proof uint8

const (
	// Recorded: nothing proved the name now. It stands in the store or in the operator's
	// configuration, or is one of the sidecar's own.
	Recorded Proof = iota
	// Unauthenticated: authentication is off, and every caller has the one name.
	Unauthenticated
	// ByToken: a bearer token of the tokens file.
	ByToken
	// ByIssuer: a JSON web token of an issuer.
	ByIssuer
	// ByCertificate: a client certificate.
	ByCertificate
	// BySidecar: the secret that the process made for itself, which no file of rights can give.
	BySidecar
	// Claimed: the caller says so, which takes the scope AnswerFor.
	Claimed
)

// Identity is a name by its parts: whose word something is, and through which principals it
// came. Identities are compared by their parts; the text of one, by [Identity.String], is for
// what is stored and shown.
type Identity struct {
	// Subject is whose word it is.
	Subject string
	// Chain are the principals that passed the word on, the caller of this sidecar first;
	// nil = the subject called.
	Chain []string
}

// chainMark stands between the parts of a stored name. No principal that authentication makes
// has it in its own name.
const chainMark = ">"

// IsPrincipalName reports whether a text can be the name of a principal that speaks for itself: it has
// no mark by which stored names show that others passed a word on.
func IsPrincipalName(name string) bool { return name != "" && !strings.Contains(name, chainMark) }

// IdentityOf reads the stored form of a name: "bridge>dave" is dave's word, which bridge
// passed on.
func IdentityOf(stored string) Identity {
	parts := strings.Split(stored, chainMark)
	last := len(parts) - 1
	if last == 0 {
		return Identity{Subject: stored}
	}
	return Identity{Subject: parts[last], Chain: parts[:last:last]}
}

// String is the stored form; [IdentityOf] reads it.
func (i Identity) String() string {
	if len(i.Chain) == 0 {
		return i.Subject
	}
	return strings.Join(i.Chain, chainMark) + chainMark + i.Subject
}

// Parts are the names in it, the caller's first.
func (i Identity) Parts() []string { return append(slices.Clone(i.Chain), i.Subject) }

// Speaker is the principal that called: the one that authentication knows.
func (i Identity) Speaker() string {
	if len(i.Chain) > 0 {
		return i.Chain[0]
	}
	return i.Subject
}

// Shares reports whether somebody has a part in both, as the subject or as one that passed the
// word on.
func (i Identity) Shares(other Identity) bool {
	mine := i.Parts()
	return slices.ContainsFunc(other.Parts(), func(part string) bool { return slices.Contains(mine, part) })
}

// Principal is who calls, or whose word something is, with rights.
type Principal struct {
	// Subject is whose word it is: the caller's, unless Chain names the caller.
	Subject string
	// Chain are the principals that passed the word on; see [Identity].
	Chain  []string
	Scopes Scopes
	// Namespaces are the only ones that exist for the principal, the first being what
	// its calls mean that name none; nil = every one that is served, and the default.
	Namespaces []string
	// Proof says how the subject is known.
	Proof Proof
}

// Identity is the name by its parts.
func (p Principal) Identity() Identity { return Identity{Subject: p.Subject, Chain: p.Chain} }

// Name is the one text under which everything that the principal causes is recorded.
func (p Principal) Name() string { return p.Identity().String() }

// Speaker is the principal that called, which quotas are charged to.
func (p Principal) Speaker() string { return p.Identity().Speaker() }

// Owns reports whether an owner that is stored is this very principal: the same subject through
// the same chain. What is said in another's name owns nothing of either.
func (p Principal) Owns(stored string) bool {
	owner := IdentityOf(stored)
	return owner.Subject == p.Subject && slices.Equal(owner.Chain, p.Chain)
}

// Own reports whether it is the sidecar itself, as a caller of its own services.
func (p Principal) Own() bool { return p.Proof == BySidecar }

// Bound reports whether the principal is kept to some namespaces.
func (p Principal) Bound() bool { return p.Namespaces != nil }

// In reports whether a namespace exists for the principal, as far as its rights say.
func (p Principal) In(namespace string) bool {
	return !p.Bound() || slices.Contains(p.Namespaces, namespace)
}

// DefaultNamespace is what a call of the principal means that names no namespace; "" = the default.
func (p Principal) DefaultNamespace() string {
	if len(p.Namespaces) == 0 {
		return ""
	}
	return p.Namespaces[0]
}

// MaySeeRuns reports whether runs exist at all for the principal. To one that
// may not, every run is as absent as one that never was.
func (p Principal) MaySeeRuns() bool {
	return p.Scopes.Any(RunsRead | RunsWrite | EventsExternal | RunsDelete | RunsErase | BudgetsWrite | StepsApprove)
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

// Anonymous is the caller while authentication is off: every right but Admin. It may pass on
// the word of others, which gives it nothing: it has no name of its own, what it passes on keeps
// the part "anonymous", and an approval that is not the starter's is refused to that part.
func Anonymous() Principal {
	return Principal{Subject: AnonymousName, Scopes: AnonymousScopes, Proof: Unauthenticated}
}

// Answerer is the principal of an answer that was kept with the names of its rights.
// Names that are not known give no right.
func Answerer(stored string, scopes []string) Principal {
	by := IdentityOf(stored)
	p := Principal{Subject: by.Subject, Chain: by.Chain}
	for _, s := range scopes {
		scope, _ := ScopeByName(s)
		p.Scopes |= scope
	}
	return p
}

// Behalf is the principal of what p says in another's name, where the sidecar of p is
// not this one: nobody here has seen the other. It takes the scope AnswerFor, has no right that
// p lacks and none that the other lacks, and keeps p as the first part of its name.
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

// Wire is a principal on its way to another node of a cluster, whose version may be another:
// names are in their stored form, and Own stands beside the proof that older nodes do not send.
type Wire struct {
	Name       string   `json:"Name"`
	Scopes     Scopes   `json:"Scopes"`
	Namespaces []string `json:"Namespaces"`
	Own        bool     `json:"Own"`
	Proof      Proof    `json:"Proof"`
}

// Wire is the principal as it is sent.
func (p Principal) Wire() Wire {
	return Wire{Name: p.Name(), Scopes: p.Scopes, Namespaces: p.Namespaces, Own: p.Own(), Proof: p.Proof}
}

// Principal is what was sent.
func (w Wire) Principal() Principal {
	by := IdentityOf(w.Name)
	p := Principal{Subject: by.Subject, Chain: by.Chain, Scopes: w.Scopes, Namespaces: w.Namespaces, Proof: w.Proof}
	if w.Own {
		p.Proof = BySidecar
	}
	return p
}
