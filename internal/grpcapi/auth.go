package grpcapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	mwauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// principal is an authenticated caller and what proved it.
type principal struct {
	runtime.Principal
	// token is the digest of the bearer token that proved the name; zero when
	// something else did.
	token [sha256.Size]byte
	// certificate proved the name; nil when something else did.
	certificate *identity
}

// anonymous is everyone while authentication is off.
var anonymous = &principal{Principal: runtime.Anonymous()}

type principalKey struct{}

// principalOf returns the caller that the interceptor put into the context.
func principalOf(ctx context.Context) *principal {
	if p, ok := ctx.Value(principalKey{}).(*principal); ok {
		return p
	}
	return &principal{}
}

// authenticator tells who calls and whether the method is theirs to call.
type authenticator struct {
	current atomic.Pointer[authState]
	// operations has, by name, what can be asked for.
	operations map[string]runtime.Operation
}

// authState is who may call; changed is closed when another replaces it.
type authState struct {
	tokens *tokenSet
	// certificates is nil unless callers must show one.
	certificates *certificateSet
	changed      chan struct{}
}

func newAuthenticator(tokens *tokenSet, certificates *certificateSet) *authenticator {
	a := &authenticator{operations: operations()}
	a.current.Store(&authState{tokens: tokens, certificates: certificates, changed: make(chan struct{})})
	return a
}

// replace installs other tokens and certificates; streams of principals that lost
// their right end.
func (a *authenticator) replace(tokens *tokenSet, certificates *certificateSet) {
	old := a.current.Swap(&authState{tokens: tokens, certificates: certificates, changed: make(chan struct{})})
	close(old.changed)
}

// changed is closed at the next change of rights.
func (a *authenticator) changed() <-chan struct{} { return a.current.Load().changed }

// admit is the [mwauth.AuthFunc] of every method.
func (a *authenticator) admit(ctx context.Context) (context.Context, error) {
	method, _ := grpc.Method(ctx)
	if a.operations[method].Public {
		return context.WithValue(ctx, principalKey{}, anonymous), nil
	}
	p, err := a.identify(ctx)
	if err != nil {
		return ctx, err
	}
	if err := a.authorize(p, method); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, principalKey{}, p), nil
}

// identify names the caller: by token where tokens are configured, else by client
// certificate where those are asked for, else it is anonymous. It is the one way in
// for every listener and binding.
func (a *authenticator) identify(ctx context.Context) (*principal, error) {
	now := a.current.Load()
	switch {
	case !now.tokens.empty():
		return now.byToken(ctx)
	case now.certificates != nil:
		return now.byCertificate(ctx)
	}
	return anonymous, nil
}

func (s *authState) byToken(ctx context.Context) (*principal, error) {
	secret, err := mwauth.AuthFromMD(ctx, "bearer")
	if err != nil {
		return nil, unauthenticated("TOKEN_MISSING", "this server wants the header authorization: Bearer TOKEN")
	}
	p := s.tokens.find(sha256.Sum256([]byte(secret)))
	if p == nil {
		return nil, unauthenticated("TOKEN_UNKNOWN", "the bearer token is not one of this server's")
	}
	return p, nil
}

// byCertificate names the holder of the certificate. The Unix socket, where none can
// be shown, is its owner's.
func (s *authState) byCertificate(ctx context.Context) (*principal, error) {
	id, owner := shown(ctx)
	switch {
	case id != nil:
		return s.certificates.find(id)
	case owner:
		return anonymous, nil
	}
	return nil, unauthenticated("CERTIFICATE_MISSING", "this server wants a client certificate")
}

// authorize checks the method against the scopes of the principal.
func (a *authenticator) authorize(p *principal, method string) error {
	op, known := a.operations[method]
	need := op.Scopes
	if known && (need == 0 || p.Scopes.Any(need)) {
		return nil
	}
	return &machine.Refusal{
		Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Allowed: need.Names(),
		Message: fmt.Sprintf("principal %q may not call %s; it takes one of these scopes", p.Name, method),
	}
}

// recheck says whether a principal that was admitted to a method still is.
func (a *authenticator) recheck(p *principal, method string) error {
	_, err := a.again(p, method)
	return err
}

// again is a principal that was admitted to a method, by the rights that hold now.
func (a *authenticator) again(p *principal, method string) (*principal, error) {
	now := a.current.Load()
	var still *principal
	switch {
	case p.token != ([sha256.Size]byte{}):
		still = now.tokens.find(p.token)
		if still == nil || still.Name != p.Name {
			return nil, unauthenticated("TOKEN_REVOKED", "the bearer token of this stream was withdrawn")
		}
	case p.certificate != nil && now.certificates != nil:
		var err error
		if still, err = now.certificates.find(p.certificate); err != nil {
			return nil, err
		}
		if still.Name != p.Name {
			return nil, unauthenticated("CERTIFICATE_REVOKED", "the certificate of this stream names another principal now")
		}
	default:
		return p, nil
	}
	return still, a.authorize(still, method)
}

func unauthenticated(reason, message string) error {
	return &machine.Refusal{Code: machine.CodeUnauthenticated, Reason: reason, Field: "authorization", Message: message}
}
