package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// lent holds the callers of tokens that this process creates for the duration of one request.
type lent struct {
	mu sync.Mutex
	by map[[sha256.Size]byte]*Caller
}

// Lend returns a random bearer token. Until done is called, calls with this token are treated as calls
// of the caller p. The token never leaves this process.
func (a *Authenticator) Lend(p *Caller) (token string, done func()) {
	token = rand.Text()
	key := sha256.Sum256([]byte(token))
	a.lent.mu.Lock()
	defer a.lent.mu.Unlock()
	if a.lent.by == nil {
		a.lent.by = make(map[[sha256.Size]byte]*Caller)
	}
	a.lent.by[key] = p
	return token, func() {
		a.lent.mu.Lock()
		defer a.lent.mu.Unlock()
		delete(a.lent.by, key)
	}
}

// find returns the caller that a token was lent to, or nil.
func (l *lent) find(token string) *Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.by) == 0 {
		return nil
	}
	return l.by[sha256.Sum256([]byte(token))]
}

// LinkPrefix begins the names of principals that decide with a decision link.
const LinkPrefix = "link:"

// ByLink returns the caller that decides with a decision link. It is a named person. The principal that
// made the link is responsible for the name. The caller may see the held calls of one namespace and
// decide about them.
func ByLink(maker, person, namespace string) *Caller {
	return &Caller{Principal: runtime.Principal{
		Subject: LinkPrefix + person, Chain: policy.IdentityOf(maker).Parts(), Proof: policy.ByLink,
		Scopes: runtime.ScopeStepsApprove | runtime.ScopeRunsRead, Namespaces: []string{namespace},
	}}
}
