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

// Caller is an authenticated caller together with the proof of its name.
type Caller struct {
	runtime.Principal
	// token is the digest of the bearer token that proved the name. It is zero if the name was proved
	// differently.
	token [sha256.Size]byte
	// certificate is the certificate that proved the name. It is nil if the name was proved
	// differently.
	certificate *Identity
	// issued contains the claims of the issuer's token that proved the name. It is nil if the name was
	// proved differently.
	issued *oidc.Identity
}

// Anonymous is every caller while authentication is off.
var Anonymous = &Caller{Principal: runtime.Anonymous()}

type principalKey struct{}

// CallerOf returns the caller that the interceptor put into the context.
func CallerOf(ctx context.Context) *Caller {
	if p, ok := ctx.Value(principalKey{}).(*Caller); ok {
		return p
	}
	return &Caller{}
}

// WithCaller returns a context that contains the caller of a call.
func WithCaller(ctx context.Context, p *Caller) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

type rightsKey struct{}

// WithRights does the same as [WithCaller] for a caller whose rights were read from by. If the rights
// have changed since, [Authenticator.Unary] checks the caller again.
func WithRights(ctx context.Context, p *Caller, by *AuthState) context.Context {
	return context.WithValue(WithCaller(ctx, p), rightsKey{}, by)
}

// Authenticator identifies callers and checks whether they may call a method.
type Authenticator struct {
	Current atomic.Pointer[AuthState]
	// Operations has the known operations by method name.
	Operations map[string]runtime.Operation
	// own identifies the sidecar itself. It is nil if the sidecar does not call itself.
	own  *own
	lent lent
}

// AuthState is one version of the rights of all callers. changed is closed when another version
// replaces it.
type AuthState struct {
	Tokens *TokenSet
	// Issuers is nil if tokens of issuers are not accepted.
	Issuers *oidc.Set
	// Certificates is nil if callers need no certificate.
	Certificates *CertificateSet
	changed      chan struct{}
}

// AsksToken reports whether callers must send a bearer token.
func (s *AuthState) AsksToken() bool { return !s.Tokens.Empty() || !s.Issuers.Empty() }

// NewAuthenticator returns an Authenticator with the operations by name and the current rights.
func NewAuthenticator(operations map[string]runtime.Operation, by AuthState) *Authenticator {
	a := &Authenticator{Operations: operations}
	by.changed = make(chan struct{})
	a.Current.Store(&by)
	return a
}

// Replace installs new rights. It ends the streams of principals that have lost a right.
func (a *Authenticator) Replace(by AuthState) {
	by.changed = make(chan struct{})
	close(a.Current.Swap(&by).changed)
}

// Renew makes every stream check its principal again. It is called when an issuer no longer publishes
// a key.
func (a *Authenticator) Renew() {
	old := a.Current.Load()
	next := *old
	next.changed = make(chan struct{})
	if a.Current.CompareAndSwap(old, &next) {
		close(old.changed)
	}
}

// Changed returns a channel that is closed at the next change of rights.
func (a *Authenticator) Changed() <-chan struct{} { return a.Current.Load().changed }

// Admit authenticates the caller of a method and checks its scopes. It is the [mwauth.AuthFunc] of
// the interceptor chain.
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

// Identify returns the caller of a context. If tokens are configured, the token identifies the caller.
// Otherwise, if certificates are requested, the client certificate identifies it. Otherwise the caller
// is anonymous. Every listener uses this function.
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

// Lasting returns the context for a stream or a wait of a caller. The context ends when the caller's
// token expires, and its cause then says so.
func Lasting(ctx context.Context, p *Caller) (context.Context, context.CancelFunc) {
	if p.issued == nil {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, p.issued.Until, oidc.Expired())
}

// byCertificate identifies a caller by its certificate. On the Unix socket, where a client cannot send
// a certificate, the caller is the owner of the process.
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

// Authorize returns an error if the principal has no scope for the method.
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

// Recheck checks again whether a principal may use an open stream. It also fails if the principal has
// lost the right to sensitive values, because the stream was opened with this right.
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

// Still returns an error if an admitted principal has lost one of its rights since.
func (a *Authenticator) Still(p *Caller) error {
	still, err := a.now(p)
	if err == nil && !still.Scopes.Has(p.Scopes) {
		err = unauthenticated("SCOPE_REVOKED", "the principal of this stream no longer has all of the scopes "+p.Scopes.String())
	}
	return err
}

// Reauthorize returns the principal with its current rights if they still permit the method.
func (a *Authenticator) Reauthorize(p *Caller, method string) (*Caller, error) {
	still, err := a.now(p)
	if err != nil {
		return nil, err
	}
	return still, a.Authorize(still, method)
}

// now returns a principal with its current rights. If this process did not authenticate the principal,
// now returns it unchanged.
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

// Unary is the interceptor for a caller that is already in the context. The request may have waited for
// a long time. If rights have changed since then, the caller is authorized again.
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

// MayRead checks that a principal with this name has one of the scopes in a namespace. It is used for
// the owner of a webhook, which may have lost the right. In that case the error is OWNER_LOST_RIGHT.
func (a *Authenticator) MayRead(name, namespace string, scopes runtime.Scopes) error {
	now := a.Current.Load()
	may := func(p runtime.Principal) bool { return p.Scopes.Any(scopes) && p.In(namespace) }
	switch {
	case now.AsksToken():
		// The claims of the issuer's next token are not known, so this checks the most that the
		// issuer's rules can grant.
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

// Unlisted returns an error that names the registered methods that have no row in the table of
// operations.
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
