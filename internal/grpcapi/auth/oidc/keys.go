package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// How often keys are fetched.
const (
	// refreshEvery is the age at which keys are fetched again. The old keys are used until the new keys
	// have arrived.
	refreshEvery = 15 * time.Minute
	// notBefore is the shortest interval between two fetches, so that tokens with unknown keys cannot
	// cause too many fetches.
	notBefore = 10 * time.Second
	// staleAfter is the age at which keys are no longer accepted, if newer keys cannot be fetched.
	staleAfter = 24 * time.Hour
)

// Limits of a set of keys.
const (
	maxKeys    = 64
	minRSABits = 2048
)

// published is a key that an issuer published. print is the key's thumbprint: it identifies the key, because the
// issuer may later use the same kid for another key.
type published struct {
	jose.JSONWebKey
	print string
}

// keyset contains the keys that an issuer published at one time, by kid.
type keyset struct {
	keys map[string]published
	read time.Time
}

// keyring holds the keys of one issuer. Safe for concurrent use.
type keyring struct {
	// fetch returns the bytes of a JWKS.
	fetch func(context.Context) ([]byte, error)
	// fixed means that the keys came from a file. The file is not read again.
	fixed bool
	// onKeyRemoved is called when the issuer no longer publishes a key.
	onKeyRemoved func()
	now          func() time.Time
	one          singleflight.Group
	// renewing reports whether a goroutine is fetching newer keys.
	renewing atomic.Bool

	mu          sync.Mutex
	current     *keyset // nil until the first successful fetch
	lastAttempt time.Time
	fault       error
}

// find returns the key with a kid. If kid is "", it returns the only key. It waits if the keys must be fetched first. If
// there is an error, it is unknown whether the key exists. A failed fetch is no error while older keys are accepted.
func (k *keyring) find(ctx context.Context, kid string) (key published, ok bool, err error) {
	set, again := k.state()
	if key, ok = set.key(kid); ok {
		if again && k.renewing.CompareAndSwap(false, true) {
			// The newer keys are fetched in the background. Until they have arrived, the old keys are used.
			go func() {
				defer k.renewing.Store(false)
				_ = k.refresh(context.WithoutCancel(ctx))
			}()
		}
		return key, true, nil
	}
	if again || k.mayTry() {
		err = k.refresh(ctx)
	}
	set, _ = k.state()
	if key, ok = set.key(kid); ok {
		return key, true, nil
	}
	if set == nil {
		return key, false, errors.Join(errors.New("the issuer's keys are not known"), err, k.lastFault())
	}
	return key, false, nil
}

// counts reports whether a key is still published.
func (k *keyring) counts(key published) bool {
	set, _ := k.state()
	now, ok := set.key(key.KeyID)
	return ok && now.print == key.print
}

// state returns the keys that are accepted now, or nil. again reports whether the keys should be
// fetched again.
func (k *keyring) state() (set *keyset, again bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fixed || k.current == nil {
		return k.current, false
	}
	age := k.now().Sub(k.current.read)
	again = age > refreshEvery && k.now().Sub(k.lastAttempt) >= notBefore
	if age > staleAfter {
		return nil, again
	}
	return k.current, again
}

// mayTry reports whether at least the time notBefore has passed since the last fetch. Keys of a file are never fetched.
func (k *keyring) mayTry() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.fixed && k.now().Sub(k.lastAttempt) >= notBefore
}

func (k *keyring) lastFault() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fault
}

// refresh fetches the keys. Concurrent callers share one fetch. If mayTry forbids a fetch, refresh returns the error of
// the last one.
func (k *keyring) refresh(ctx context.Context) error {
	done := k.one.DoChan("", func() (any, error) {
		if !k.mayTry() {
			return nil, k.lastFault()
		}
		raw, err := k.fetch(context.WithoutCancel(ctx))
		return nil, k.install(raw, err)
	})
	select {
	case got := <-done:
		return got.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// install replaces the keys by the fetched keys. If the fetch failed, it records the error instead.
func (k *keyring) install(raw []byte, err error) error {
	var keys map[string]published
	if err == nil {
		keys, err = parseKeys(raw)
	}
	k.mu.Lock()
	now, removed := k.now(), false
	k.lastAttempt, k.fault = now, err
	if err == nil {
		if k.current != nil {
			for kid, old := range k.current.keys {
				removed = removed || keys[kid].print != old.print
			}
		}
		k.current = &keyset{keys: keys, read: now}
	}
	k.mu.Unlock()
	if removed {
		k.onKeyRemoved()
	}
	return err
}

// adopt copies the keys of another keyring of the same issuer.
func (k *keyring) adopt(old *keyring) {
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.current != nil {
		k.current = &keyset{keys: maps.Clone(old.current.keys), read: old.current.read}
	}
	k.lastAttempt, k.fault = old.lastAttempt, old.fault
}

func (s *keyset) key(kid string) (key published, ok bool) {
	if s == nil {
		return key, false
	}
	if kid == "" && len(s.keys) == 1 {
		for _, only := range s.keys {
			return only, true
		}
	}
	key, ok = s.keys[kid]
	return key, ok && kid != ""
}

// parseKeys returns the public keys of a JWKS that verify signatures. It ignores shared secrets, weak
// keys, keys for other uses, and unreadable keys.
func parseKeys(raw []byte) (map[string]published, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := strictjson.Decode(raw, &set, strictjson.Foreign); err != nil {
		return nil, fmt.Errorf("a JWKS is wanted: {\"keys\": [...]}: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the JWKS has %d keys; at most %d are taken", len(set.Keys), maxKeys)
	}
	keys := map[string]published{}
	for i, one := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(one, &key) != nil || !usable(&key) {
			continue
		}
		if key.KeyID == "" {
			key.KeyID = fmt.Sprintf("(%d)", i)
		}
		if _, twice := keys[key.KeyID]; twice {
			return nil, errors.New("the JWKS has two keys of one kid")
		}
		thumb, err := key.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		keys[key.KeyID] = published{key, string(thumb)}
	}
	if len(keys) == 0 {
		return nil, errors.New("the JWKS has no public key that verifies signatures")
	}
	return keys, nil
}

func usable(key *jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() || !key.IsPublic() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}
