package decisionlink

import (
	"strings"
	"sync/atomic"
	"time"
)

// Path is where the gateway serves links: this and the token.
const Path = "/decide/"

// Signer makes links and reads them. The nil Signer makes none. Safe for concurrent use.
type Signer struct {
	base   string
	expiry time.Duration
	now    func() time.Time
	keys   atomic.Pointer[Keys]
}

// NewSigner makes links below a public base URL that hold for a time; 0 = no time limit. There is at
// least one key.
func NewSigner(base string, expiry time.Duration, keys Keys, now func() time.Time) *Signer {
	s := &Signer{base: strings.TrimRight(base, "/"), expiry: expiry, now: now}
	s.Replace(keys)
	return s
}

// Replace installs another list of keys. Links of keys that it does not have no longer verify.
func (s *Signer) Replace(keys Keys) { s.keys.Store(&keys) }

// URL makes a link whose time begins at a moment, and says when it ends; the zero time = never.
func (s *Signer) URL(l Link, from time.Time) (url string, expires time.Time) {
	if s.expiry > 0 {
		expires = from.Add(s.expiry).Truncate(time.Second)
		l.Expires = expires.Unix()
	}
	return s.base + Path + s.keys.Load().Sign(&l), expires
}

// Now is the present moment by the clock of the links.
func (s *Signer) Now() time.Time { return s.now() }

// Read is [Keys.Read] with the present keys.
func (s *Signer) Read(token string) (Link, error) { return s.keys.Load().Read(token) }
