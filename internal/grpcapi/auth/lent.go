package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// lent contains temporary tokens. This process creates each of them for one request and stores which
// caller it stands for.
type lent struct {
	mu      sync.Mutex
	callers map[[sha256.Size]byte]*Caller
}

// Lend returns a random bearer token. Until done is called, calls with this token are treated as calls
// of the caller p. The token never leaves this process.
func (a *Authenticator) Lend(p *Caller) (token string, done func()) {
	token = rand.Text()
	key := sha256.Sum256([]byte(token))
	a.lent.mu.Lock()
	defer a.lent.mu.Unlock()
	if a.lent.callers == nil {
		a.lent.callers = make(map[[sha256.Size]byte]*Caller)
	}
	a.lent.callers[key] = p
	return token, func() {
		a.lent.mu.Lock()
		defer a.lent.mu.Unlock()
		delete(a.lent.callers, key)
	}
}

// find returns the caller that a token was lent to, or nil.
func (l *lent) find(token string) *Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.callers) == 0 {
		return nil
	}
	return l.callers[sha256.Sum256([]byte(token))]
}

// LinkPrefix begins the names of principals that decide with a decision link.
const LinkPrefix = "link:"

// ByLink returns the caller that decides with a decision link. It is a named person. The principal that made the link
// is responsible for the name. The caller may see the tool calls of one namespace that wait for approval, and decide
// about them.
func ByLink(maker, person, namespace string) *Caller {
	return &Caller{Principal: runtime.Principal{
		Subject: LinkPrefix + person, Chain: policy.IdentityOf(maker).Parts(), Proof: policy.ByLink,
		Scopes: runtime.ScopeStepsApprove | runtime.ScopeRunsRead, Namespaces: []string{namespace},
	}}
}
