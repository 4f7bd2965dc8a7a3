package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	mwauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth/oidc"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Caller is an authenticated caller and what proved it.
type Caller struct {
	runtime.Principal
	// token is the digest of the bearer token that proved the name; zero with another proof.
	token [sha256.Size]byte
	// certificate is the certificate that proved the name; nil with another proof.
	certificate *Identity
	// issued holds the claims of an issuer's token; nil with another proof.
	issued *oidc.Identity
}

// Anonymous is everyone while authentication is off.
var Anonymous = &Caller{Principal: runtime.Anonymous()}

type principalKey struct{}

// CallerOf returns the caller that the interceptor put into the context.
func CallerOf(ctx context.Context) *Caller {
	if p, ok := ctx.Value(principalKey{}).(*Caller); ok {
		return p
	}
	return &Caller{}
}

// WithCaller puts a caller into the context of its call.
func WithCaller(ctx context.Context, p *Caller) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

type rightsKey struct{}

// WithRights is WithCaller with the rights that the caller was looked up by.
func WithRights(ctx context.Context, p *Caller, by *AuthState) context.Context {
	return context.WithValue(WithCaller(ctx, p), rightsKey{}, by)
}

// Authenticator identifies callers and checks whether they may call a method.
type Authenticator struct {
	Current atomic.Pointer[AuthState]
	// Operations has, by name, what can be asked for.
	Operations map[string]runtime.Operation
	// own is nil unless the sidecar calls itself.
	own  *own
	lent lent
}

// AuthState holds the present rights of callers; changed is closed when another state replaces
// it.
type AuthState struct {
	Tokens *TokenSet
	// Issuers is nil unless tokens of others are taken.
	Issuers *oidc.Set
	// Certificates is nil unless callers must show one.
	Certificates *CertificateSet
	changed      chan struct{}
}

// AsksToken reports whether callers must show a bearer token.
func (s *AuthState) AsksToken() bool { return !s.Tokens.Empty() || !s.Issuers.Empty() }

// NewAuthenticator makes one that admits to these operations, by name, by these rights.
func NewAuthenticator(operations map[string]runtime.Operation, by AuthState) *Authenticator {
	a := &Authenticator{Operations: operations}
	by.changed = make(chan struct{})
	a.Current.Store(&by)
	return a
}

// Replace installs other rights; streams of principals that lost theirs end.
func (a *Authenticator) Replace(by AuthState) {
	by.changed = make(chan struct{})
	close(a.Current.Swap(&by).changed)
}

// Renew has every stream ask again whether its principal still counts: a key of an issuer
// is gone.
func (a *Authenticator) Renew() {
	old := a.Current.Load()
	next := *old
	next.changed = make(chan struct{})
	if a.Current.CompareAndSwap(old, &next) {
		close(old.changed)
	}
}

// Changed is closed at the next change of rights.
func (a *Authenticator) Changed() <-chan struct{} { return a.Current.Load().changed }

// Admit is the [mwauth.AuthFunc] of every method.
func (a *Authenticator) Admit(ctx context.Context) (context.Context, error) {
	method, _ := grpc.Method(ctx)
	if a.Operations[method].Public {
		return WithCaller(ctx, Anonymous), nil
	}
	p, err := a.Identify(ctx)
	if err != nil {
		return ctx, err
	}
	setCallerRef(ctx, p)
	if err := a.Authorize(p, method); err != nil {
		return ctx, err
	}
	return WithCaller(ctx, p), nil
}

// Identify names the caller: by token where tokens are configured, else by client
// certificate where those are asked for, else it is anonymous. It is the one way in
// for every listener and binding.
func (a *Authenticator) Identify(ctx context.Context) (*Caller, error) {
	now := a.Current.Load()
	if p := a.ownCaller(ctx); p != nil {
		return p, nil
	}
	if secret, err := mwauth.AuthFromMD(ctx, "bearer"); err == nil {
		if p := a.lent.find(secret); p != nil {
			return p, nil
		}
	}
	switch {
	case now.AsksToken():
		return now.byToken(ctx)
	case now.Certificates != nil:
		return now.byCertificate(ctx)
	}
	return Anonymous, nil
}

func (s *AuthState) byToken(ctx context.Context) (*Caller, error) {
	secret, err := mwauth.AuthFromMD(ctx, "bearer")
	if err != nil {
		return nil, unauthenticated("TOKEN_MISSING", "this server wants the header authorization: Bearer TOKEN")
	}
	p := s.Tokens.Holder(secret)
	if p == nil && !s.Issuers.Empty() && oidc.MaybeJWT(secret) {
		return s.byIssuer(ctx, secret)
	}
	if p == nil {
		return nil, unauthenticated("TOKEN_UNKNOWN", "the bearer token is not one of this server's")
	}
	return p, nil
}

// byIssuer identifies a caller by an issuer's token.
func (s *AuthState) byIssuer(ctx context.Context, token string) (*Caller, error) {
	id, err := s.Issuers.Identify(ctx, token)
	if err != nil {
		return nil, err
	}
	return &Caller{Principal: id.Principal, issued: id}, nil
}

// Lasting is the context of what a caller keeps open: it ends, and says why, when the
// caller's token does.
func Lasting(ctx context.Context, p *Caller) (context.Context, context.CancelFunc) {
	if p.issued == nil {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, p.issued.Until, oidc.Expired())
}

// byCertificate names the holder of the certificate. The Unix socket, where none can
// be shown, is its owner's.
func (s *AuthState) byCertificate(ctx context.Context) (*Caller, error) {
	id, owner := shown(ctx)
	switch {
	case id != nil:
		return s.Certificates.Find(id)
	case owner:
		return Anonymous, nil
	}
	return nil, unauthenticated("CERTIFICATE_MISSING", "this server wants a client certificate")
}

// Authorize checks the method against the scopes of the principal.
func (a *Authenticator) Authorize(p *Caller, method string) error {
	op, known := a.Operations[method]
	need := op.Scopes
	if known && (need == 0 || p.Scopes.Any(need)) {
		return inSpace(p, op)
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Allowed: need.Names(),
		Message: fmt.Sprintf("principal %q may not call %s; it takes one of these scopes", p.Name(), method),
	}
}

// Recheck says whether the stream of a principal that was admitted to a method goes on. What
// it shows was settled when it was opened, so it ends with the right to sensitive values.
func (a *Authenticator) Recheck(p *Caller, method string) error {
	still, err := a.Reauthorize(p, method)
	if err != nil {
		return err
	}
	op := a.Operations[method]
	if had := p.Scopes & op.Scopes; op.KeepsScopes && still.Scopes&had != had {
		return &machine.Error{
			Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Allowed: op.Scopes.Names(),
			Message: fmt.Sprintf("principal %q no longer has all of the scopes that it had for this stream: %s", p.Name(), had),
		}
	}
	if p.Scopes.Has(runtime.ScopeValuesSensitive) && !still.Scopes.Has(runtime.ScopeValuesSensitive) {
		return unauthenticated("SCOPE_REVOKED", "the principal of this stream no longer has the scope "+runtime.ScopeValuesSensitive.String())
	}
	return nil
}

// Still returns an error if an admitted principal has lost one of its rights.
func (a *Authenticator) Still(p *Caller) error {
	still, err := a.now(p)
	if err == nil && !still.Scopes.Has(p.Scopes) {
		err = unauthenticated("SCOPE_REVOKED", "the principal of this stream no longer has all of the scopes "+p.Scopes.String())
	}
	return err
}

// Reauthorize is a principal that was admitted to a method, by the rights that hold now.
func (a *Authenticator) Reauthorize(p *Caller, method string) (*Caller, error) {
	still, err := a.now(p)
	if err != nil {
		return nil, err
	}
	return still, a.Authorize(still, method)
}

// now returns a principal with its present rights, or itself if this process did not
// authenticate it.
func (a *Authenticator) now(p *Caller) (*Caller, error) {
	now := a.Current.Load()
	var still *Caller
	switch {
	case p.token != ([sha256.Size]byte{}):
		still = now.Tokens.find(p.token)
		if still == nil || !still.Owns(p.Name()) {
			return nil, unauthenticated("TOKEN_REVOKED", "the bearer token of this stream was withdrawn")
		}
	case p.issued != nil:
		id, err := now.Issuers.Revalidate(p.issued)
		if err != nil {
			return nil, err
		}
		still = &Caller{Principal: id.Principal, issued: id}
		if !still.Owns(p.Name()) {
			return nil, unauthenticated("TOKEN_REVOKED", "the token of this stream names another principal now")
		}
	case p.certificate != nil && now.Certificates != nil:
		var err error
		if still, err = now.Certificates.Find(p.certificate); err != nil {
			return nil, err
		}
		if !still.Owns(p.Name()) {
			return nil, unauthenticated("CERTIFICATE_REVOKED", "the certificate of this stream names another principal now")
		}
	default:
		return p, nil
	}
	if lost(p.Principal, still.Principal) {
		return nil, unauthenticated("NAMESPACE_REVOKED", "the principal of this stream is kept to other namespaces now")
	}
	return still, nil
}

func unauthenticated(reason, message string) error {
	return &machine.Error{Code: machine.CodeUnauthenticated, Reason: reason, Field: "authorization", Message: message}
}

// Unary is admit for a caller that is in the context already. The request may have waited: if
// rights have changed since, the caller is looked up again.
func (a *Authenticator) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	who := CallerOf(ctx)
	if ctx.Value(rightsKey{}) != a.Current.Load() {
		now, err := a.Reauthorize(who, info.FullMethod)
		if err != nil {
			return nil, err
		}
		who, ctx = now, WithCaller(ctx, now)
	}
	setCallerRef(ctx, who)
	if err := a.Authorize(who, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// MayRead checks that a principal of this name has one of the scopes in a namespace. The
// creator of a receiver may have lost the right since; the refusal is OWNER_LOST_RIGHT.
func (a *Authenticator) MayRead(name, namespace string, scopes runtime.Scopes) error {
	now := a.Current.Load()
	may := func(p runtime.Principal) bool { return p.Scopes.Any(scopes) && p.In(namespace) }
	switch {
	case now.AsksToken():
		// The claims of an issuer's next token are unknown; its rules limit what they can
		// grant.
		if now.Issuers.MayHave(name, scopes, namespace) || slices.ContainsFunc(now.Tokens.Principals, func(p *Caller) bool { return p.Owns(name) && may(p.Principal) }) {
			return nil
		}
	case now.Certificates == nil, Anonymous.Owns(name), may(now.Certificates.Of(name)):
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "OWNER_LOST_RIGHT", Allowed: scopes.Names(),
		Message: fmt.Sprintf("nothing is sent: principal %q, whose receiver it is, does not have one of these scopes in namespace %q", name, namespace),
	}
}

// Unlisted names the registered methods that have no row in the table.
func (a *Authenticator) Unlisted(services map[string]grpc.ServiceInfo) error {
	var faults []error
	for service, info := range services {
		for _, method := range info.Methods {
			if name := "/" + service + "/" + method.Name; a.Operations[name].Name == "" {
				faults = append(faults, fmt.Errorf("%s has no scopes in the table of operations", name))
			}
		}
	}
	return errors.Join(faults...)
}
