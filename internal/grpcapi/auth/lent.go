package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// lent are callers that this process itself admits for the time of one request.
type lent struct {
	mu sync.Mutex
	by map[[sha256.Size]byte]*Caller
}

// Lend accepts calls with the returned bearer token as a caller's, until done is called. The token is
// random and leaves this process at no time.
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

// find returns the caller that a token was lent to; nil = none.
func (l *lent) find(token string) *Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.by) == 0 {
		return nil
	}
	return l.by[sha256.Sum256([]byte(token))]
}

// LinkPrefix begins the names of principals that decide with a link.
const LinkPrefix = "link:"

// ByLink is the caller that decides with a link: a named person, whose word the maker of the link
// passes on. It may see and decide about the held calls of one namespace.
func ByLink(maker, person, namespace string) *Caller {
	return &Caller{Principal: runtime.Principal{
		Subject: LinkPrefix + person, Chain: policy.IdentityOf(maker).Parts(), Proof: policy.ByLink,
		Scopes: runtime.ScopeStepsApprove | runtime.ScopeRunsRead, Namespaces: []string{namespace},
	}}
}
