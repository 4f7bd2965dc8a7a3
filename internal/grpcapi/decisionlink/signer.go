package decisionlink

import (
	"strings"
	"sync/atomic"
	"time"
)

// Path is the path of decision links on the gateway. The token follows it.
const Path = "/decide/"

// Signer makes links and reads their tokens. The methods must not be called on a nil Signer. Safe for concurrent use.
type Signer struct {
	base   string
	expiry time.Duration
	now    func() time.Time
	keys   atomic.Pointer[Keys]
}

// NewSigner returns a Signer of links below the public URL base. The links are valid for the duration
// expiry. 0 means that there is no time limit. keys must contain at least one key.
func NewSigner(base string, expiry time.Duration, keys Keys, now func() time.Time) *Signer {
	s := &Signer{base: strings.TrimRight(base, "/"), expiry: expiry, now: now}
	s.Replace(keys)
	return s
}

// Replace replaces the keys. Links that were signed with other keys are no longer valid.
func (s *Signer) Replace(keys Keys) { s.keys.Store(&keys) }

// URL returns a link that is valid from the given time. expires is the time when it expires. The zero
// time means that it never expires.
func (s *Signer) URL(l Link, from time.Time) (url string, expires time.Time) {
	if s.expiry > 0 {
		expires = from.Add(s.expiry).Truncate(time.Second)
		l.Expires = expires.Unix()
	}
	return s.base + Path + s.keys.Load().Sign(&l), expires
}

// Now returns the time that decides about the expiry of links.
func (s *Signer) Now() time.Time { return s.now() }

// Read verifies a token with the current keys, see [Keys.Read].
func (s *Signer) Read(token string) (Link, error) { return s.keys.Load().Read(token) }
