package decisionlink

import (
	"strings"
	"sync/atomic"
	"time"
)

// Path is the path of decision links on the gateway. The token follows it.
const Path = "/decide/"

// Signer makes links and reads their tokens. A nil Signer makes none. Safe for concurrent use.
type Signer struct {
	base   string
	expiry time.Duration
	now    func() time.Time
	keys   atomic.Pointer[Keys]
}

// NewSigner returns a Signer of links below a public base URL. The links are valid for the time expiry; 0
// means no time limit. keys has at least one key.
func NewSigner(base string, expiry time.Duration, keys Keys, now func() time.Time) *Signer {
	s := &Signer{base: strings.TrimRight(base, "/"), expiry: expiry, now: now}
	s.Replace(keys)
	return s
}

// Replace replaces the keys. Links that were signed with other keys are no longer valid.
func (s *Signer) Replace(keys Keys) { s.keys.Store(&keys) }

// URL returns a link that is valid from a time on, and when it expires; the zero time means never.
func (s *Signer) URL(l Link, from time.Time) (url string, expires time.Time) {
	if s.expiry > 0 {
		expires = from.Add(s.expiry).Truncate(time.Second)
		l.Expires = expires.Unix()
	}
	return s.base + Path + s.keys.Load().Sign(&l), expires
}

// Now returns the present time by the clock that decides about expiry.
func (s *Signer) Now() time.Time { return s.now() }

// Read verifies a token with the present keys, see [Keys.Read].
func (s *Signer) Read(token string) (Link, error) { return s.keys.Load().Read(token) }
