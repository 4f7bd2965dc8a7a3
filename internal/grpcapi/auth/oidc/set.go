package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// Limits of tokens.
const (
	maxTokenBytes = 16 << 10
	// maxVerified is the number of verified tokens that are cached. With the cache, a signature is
	// verified once and not in each call.
	maxVerified = 10_000
)

// Identity is the holder of a verified token.
type Identity struct {
	// Principal is the holder of the token. It is computed by the rules that applied when the Identity
	// was returned.
	Principal runtime.Principal
	// Until is the time at which the token expires, including the leeway.
	Until time.Time
	// issuer is the issuer of the token. key is the key that signed it.
	issuer string
	key    published
	claims claims
}

// Set identifies the holders of JSON web tokens. A nil Set has no issuers. Safe for concurrent use.
type Set struct {
	issuers map[string]*issuing
	now     func() time.Time
	// onKeyRemoved is called when an issuer no longer publishes a key. It is set before the first call.
	onKeyRemoved func()

	mu       sync.Mutex
	verified *cache.LRU[[sha256.Size]byte, *Identity]
}

// issuing is one issuer with its keys.
type issuing struct {
	Issuer
	algorithms []jose.SignatureAlgorithm
	keys       *keyring
}

// NewSet checks the issuers. The error contains all faults. For an empty list it returns nil. Keys in
// files are read now. Other keys are fetched when they are first used. If old is not nil, the keys of
// the same issuers are copied from it. lost is called when an issuer no longer publishes a key. Any
// goroutine may call it.
func NewSet(list []Issuer, old *Set, lost func()) (*Set, error) {
	if len(list) == 0 {
		return nil, nil
	}
	s := &Set{issuers: map[string]*issuing{}, now: time.Now, onKeyRemoved: lost, verified: cache.New[[sha256.Size]byte, *Identity](maxVerified)}
	var faults []error
	prefixes := map[string]bool{}
	for _, one := range list {
		one = one.withDefaults()
		if err := one.validate(); err != nil {
			faults = append(faults, err)
			continue
		}
		if s.issuers[one.Issuer] != nil || prefixes[one.Prefix] {
			faults = append(faults, fmt.Errorf("issuer %q: the issuer, or its prefix %q, occurs twice in the file", one.Issuer, one.Prefix))
			continue
		}
		prefixes[one.Prefix] = true
		issuer, err := s.newIssuing(one, old)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.issuers[one.Issuer] = issuer
	}
	return s, errors.Join(faults...)
}

// newIssuing returns an issuer with its keys. Keys in a file are read now. Keys at a URL are fetched later, and
// those of old are used until then.
func (s *Set) newIssuing(one Issuer, old *Set) (*issuing, error) {
	i := &issuing{Issuer: one, keys: &keyring{now: s.clock, onKeyRemoved: s.forget}}
	for _, alg := range one.Algorithms {
		i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(alg))
	}
	if one.JWKS != "" && !strings.Contains(one.JWKS, "://") {
		i.keys.fixed = true
		raw, err := secretfile.ReadTrusted(one.JWKS)
		if err = i.keys.install(raw, err); err != nil {
			return nil, fmt.Errorf("issuer %q: jwks: %w", one.Issuer, err)
		}
		return i, nil
	}
	from, err := newFetcher(&one)
	if err != nil {
		return nil, err
	}
	i.keys.fetch = from.fetch
	if old != nil {
		if before := old.issuers[one.Issuer]; before != nil && before.JWKS == one.JWKS && before.CA == one.CA {
			i.keys.adopt(before.keys)
		}
	}
	return i, nil
}

func (s *Set) clock() time.Time { return s.now() }

// forget empties the cache of verified tokens, because their keys may no longer be published.
func (s *Set) forget() {
	s.mu.Lock()
	s.verified = cache.New[[sha256.Size]byte, *Identity](maxVerified)
	s.mu.Unlock()
	s.onKeyRemoved()
}

// Empty reports whether there are no issuers.
func (s *Set) Empty() bool { return s == nil || len(s.issuers) == 0 }

// Trusted returns the issuers, as their tokens name them, and the values of the claims scope and scp that give rights.
// An application that signs a user in asks an issuer for these values. Both lists are sorted.
func (s *Set) Trusted() (issuers, scopes []string) {
	if s == nil {
		return nil, nil
	}
	for _, i := range s.issuers {
		issuers = append(issuers, i.Issuer.Issuer)
		if claim := i.Scopes.Claim; claim == "scope" || claim == "scp" {
			scopes = slices.AppendSeq(scopes, maps.Keys(i.Scopes.Map))
		}
	}
	slices.Sort(issuers)
	slices.Sort(scopes)
	return issuers, slices.Compact(scopes)
}

// MayHave reports whether a token of an issuer could give one of these scopes in a namespace to a
// principal with this name.
func (s *Set) MayHave(name string, scopes runtime.Scopes, namespace string) bool {
	if s == nil {
		return false
	}
	for _, i := range s.issuers {
		if strings.HasPrefix(name, i.Prefix) {
			return !slices.Contains(i.Deny, name) && i.Scopes.mayGive(scopes) && i.Namespaces.mayGive(namespace)
		}
	}
	return false
}

// MayCollide reports whether the name of another kind of principal could also be the name of an issuer's
// principal.
func (s *Set) MayCollide(name string) bool {
	if s == nil {
		return false
	}
	for _, i := range s.issuers {
		if strings.HasPrefix(name, i.Prefix) {
			return true
		}
	}
	return false
}

// MaybeJWT reports whether a bearer token has the form of a JSON web token.
func MaybeJWT(token string) bool {
	return strings.Count(token, ".") == 2 && len(token) <= maxTokenBytes
}

// Identify returns the identity of a token's holder.
//
// Errors: UNAUTHENTICATED TOKEN_UNKNOWN if the token is not from a configured issuer or not signed by
// its keys; TOKEN_EXPIRED; TOKEN_REFUSED if no rule accepts its claims; UNAVAILABLE KEYS_UNAVAILABLE if
// the issuer's keys could not be fetched.
func (s *Set) Identify(ctx context.Context, token string) (*Identity, error) {
	digest := sha256.Sum256([]byte(token))
	s.mu.Lock()
	known, ok := s.verified.Get(digest)
	s.mu.Unlock()
	if ok && s.keyStillPublished(ctx, known) {
		return known, s.checkExpiry(known)
	}
	id, err := s.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// If the key is no longer published, the token must not be cached.
	if s.issuers[id.issuer].keys.counts(id.key) {
		s.verified.Put(digest, id, 1)
	}
	return id, nil
}

// keyStillPublished reports whether the key that signed a cached token is still published. It looks the
// key up in the same way as for a new token, so that cached tokens also cause the keys to be refreshed.
func (s *Set) keyStillPublished(ctx context.Context, id *Identity) bool {
	key, ok, err := s.issuers[id.issuer].keys.find(ctx, id.key.KeyID)
	return err == nil && ok && key.print == id.key.print
}

// checkExpiry returns an error if the token of an identity has expired.
func (s *Set) checkExpiry(id *Identity) error {
	if s.now().After(id.Until) {
		return Expired()
	}
	return nil
}

// Revalidate returns the identity of an earlier verified token according to the current rules and keys.
func (s *Set) Revalidate(id *Identity) (*Identity, error) {
	if s == nil || s.issuers[id.issuer] == nil || !s.issuers[id.issuer].keys.counts(id.key) {
		return nil, unknown("the issuer of the token, or the key that signed it, is no longer accepted")
	}
	p, err := s.issuers[id.issuer].principal(id.claims)
	if err != nil {
		return nil, err
	}
	again := *id
	again.Principal = p
	return &again, s.checkExpiry(id)
}

// verify verifies a token that is not in the cache.
func (s *Set) verify(ctx context.Context, token string) (*Identity, error) {
	signed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(signed.Headers) != 1 {
		return nil, unknown("the bearer token is neither in the token file nor a signed JSON web token")
	}
	var standard jwt.Claims
	if err := signed.UnsafeClaimsWithoutVerification(&standard); err != nil {
		return nil, unknown("the claims of the token cannot be decoded")
	}
	issuer, header := s.issuers[standard.Issuer], signed.Headers[0]
	if issuer == nil || !slices.Contains(issuer.algorithms, jose.SignatureAlgorithm(header.Algorithm)) {
		return nil, unknown("the issuer of the token, or its signature algorithm, is not accepted by this server")
	}
	key, ok, err := issuer.keys.find(ctx, header.KeyID)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &machine.Error{
			Code: machine.CodeUnavailable, Reason: "KEYS_UNAVAILABLE", RetryAfter: int64(notBefore),
			Message: "the keys of the token's issuer could not be fetched, so the signature cannot be checked: try again later",
		}
	case !ok || key.Algorithm != "" && key.Algorithm != header.Algorithm:
		return nil, unknown("the key that signed the token is not among the keys that its issuer publishes")
	}
	said := claims{}
	if err := signed.Claims(key.Key, &standard, &said); err != nil {
		return nil, unknown("the signature of the token is wrong")
	}
	return s.applyRules(issuer, &standard, said, key)
}

// applyRules applies the rules of an issuer to verified claims. The parameter all has all claims, standard has the
// standard claims.
func (s *Set) applyRules(issuer *issuing, standard *jwt.Claims, all claims, key published) (*Identity, error) {
	expected := jwt.Expected{Issuer: issuer.Issuer.Issuer, AnyAudience: issuer.Audience, Time: s.now()}
	switch err := standard.ValidateWithLeeway(expected, issuer.Leeway); {
	case errors.Is(err, jwt.ErrExpired):
		return nil, Expired()
	case errors.Is(err, jwt.ErrInvalidAudience):
		return nil, refused("the audience (aud) of the token does not include this server")
	case err != nil:
		return nil, refused("the token is not valid yet (nbf, iat)")
	case standard.Expiry == nil:
		return nil, refused("the token has no expiry time (exp)")
	}
	p, err := issuer.principal(all)
	if err != nil {
		return nil, err
	}
	return &Identity{Principal: p, Until: standard.Expiry.Time().Add(issuer.Leeway), issuer: issuer.Issuer.Issuer, key: key, claims: all}, nil
}

func unknown(message string) error { return refuse("TOKEN_UNKNOWN", message) }
func refused(message string) error { return refuse("TOKEN_REFUSED", message) }

// Expired returns the error for a token that has expired.
func Expired() error { return refuse("TOKEN_EXPIRED", "the token has expired: get a new one") }

func refuse(reason, message string) error {
	return &machine.Error{Code: machine.CodeUnauthenticated, Reason: reason, Field: "authorization", Message: message}
}
