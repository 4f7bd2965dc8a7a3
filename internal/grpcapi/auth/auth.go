package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	mwauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth/oidc"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Caller is an authenticated caller together with the proof of its name.
type Caller struct {
	runtime.Principal
	// token is the digest of the bearer token that proved the caller's name. It is zero if a certificate or another way
	// proved the name.
	token [sha256.Size]byte
	// certificate is the client certificate that proved the caller's name. It is nil if the name was proved
	// differently.
	certificate *Identity
	// issued contains the claims of the JSON web token that proved the caller's name. It is nil if the name was
	// proved differently.
	issued *oidc.Identity
}

// Anonymous is every caller while authentication is off, and every caller of a public method. If only certificates
// identify callers, it is also the caller on the Unix socket.
var Anonymous = &Caller{Principal: runtime.Anonymous()}

type principalKey struct{}

// CallerOf returns the caller that the interceptor put into the context, or a caller without name and rights.
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

// WithRights does the same as [WithCaller], and also stores the version of the rights that the caller
// was admitted with. If the rights have changed since, [Authenticator.Unary] checks the caller again.
func WithRights(ctx context.Context, p *Caller, by *AuthState) context.Context {
	return context.WithValue(WithCaller(ctx, p), rightsKey{}, by)
}

// Authenticator identifies callers and checks whether they may call a method.
type Authenticator struct {
	Current atomic.Pointer[AuthState]
	// Operations has the known operations by method name.
	Operations map[string]runtime.Operation
	// self recognizes calls that the sidecar makes to itself. It is nil if the sidecar makes none.
	self *selfIdentity
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

// Replace installs new rights. All open streams then check their principals again, and the streams of principals that
// have lost a right end.
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

// Admit authenticates the caller of a method and checks its scopes. A public method needs neither. It is the
// [mwauth.AuthFunc] of the interceptor chain.
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

// Identify returns the caller of a context. The sidecar's own secret and lent tokens come first. If tokens are
// configured, the token identifies the caller. Otherwise, if certificates are requested, the client certificate
// identifies it. Otherwise the caller is anonymous. Every listener uses this function.
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
		return nil, unauthenticated("TOKEN_MISSING", "this server wants a token: clients and commands read it from PAWL_TOKEN or from the file PAWL_TOKEN_FILE; on the wire it is the header authorization: Bearer TOKEN")
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

// StreamContext returns the context for a caller's stream or waiting call. The context ends when the caller's token
// expires, and its cause then says so.
func StreamContext(ctx context.Context, p *Caller) (context.Context, context.CancelFunc) {
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

// Authorize returns an error if the principal has none of the scopes that permit the method, if the method is unknown, or
// if it concerns all namespaces and the principal is restricted to some.
func (a *Authenticator) Authorize(p *Caller, method string) error {
	op, known := a.Operations[method]
	need := op.Scopes
	if known && (need == 0 || p.Scopes.Any(need)) {
		return inSpace(p, op)
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Allowed: need.Names(),
		Message: fmt.Sprintf("principal %q may not call %s without one of these scopes", p.Name(), method),
	}
}

// Recheck checks again whether a principal may use an open stream. It also fails if the principal has lost the right to
// sensitive values, because the stream was opened with this right. If the operation keeps its scopes (KeepsScopes), it
// also fails if the principal has lost one of them.
func (a *Authenticator) Recheck(p *Caller, method string) error {
	still, err := a.Reauthorize(p, method)
	if err != nil {
		return err
	}
	op := a.Operations[method]
	if scopes := p.Scopes & op.Scopes; op.KeepsScopes && still.Scopes&scopes != scopes {
		return &machine.Error{
			Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Allowed: op.Scopes.Names(),
			Message: fmt.Sprintf("principal %q no longer has all of the scopes that it had for this stream: %s", p.Name(), scopes),
		}
	}
	if p.Scopes.Has(runtime.ScopeValuesSensitive) && !still.Scopes.Has(runtime.ScopeValuesSensitive) {
		return unauthenticated("SCOPE_REVOKED", "the principal of this stream no longer has the scope "+runtime.ScopeValuesSensitive.String())
	}
	return nil
}

// CheckScopes returns an error if a principal of an open stream has lost one of the scopes that it had when the stream
// began.
func (a *Authenticator) CheckScopes(p *Caller) error {
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

// now returns a principal with its current rights. If the principal has neither a token nor a certificate that can be
// checked again, now returns it unchanged.
func (a *Authenticator) now(p *Caller) (*Caller, error) {
	now := a.Current.Load()
	var current *Caller
	switch {
	case p.token != ([sha256.Size]byte{}):
		current = now.Tokens.find(p.token)
		if current == nil || !current.Owns(p.Name()) {
			return nil, unauthenticated("TOKEN_REVOKED", "the bearer token of this stream was withdrawn")
		}
	case p.issued != nil:
		id, err := now.Issuers.Revalidate(p.issued)
		if err != nil {
			return nil, err
		}
		current = &Caller{Principal: id.Principal, issued: id}
		if !current.Owns(p.Name()) {
			return nil, unauthenticated("TOKEN_REVOKED", "the token of this stream names another principal now")
		}
	case p.certificate != nil && now.Certificates != nil:
		var err error
		if current, err = now.Certificates.Find(p.certificate); err != nil {
			return nil, err
		}
		if !current.Owns(p.Name()) {
			return nil, unauthenticated("CERTIFICATE_REVOKED", "the certificate of this stream names another principal now")
		}
	default:
		return p, nil
	}
	if hasLostNamespace(p.Principal, current.Principal) {
		return nil, unauthenticated("NAMESPACE_REVOKED", "the principal of this stream is kept to other namespaces now")
	}
	return current, nil
}

func unauthenticated(reason, message string) error {
	return &machine.Error{Code: machine.CodeUnauthenticated, Reason: reason, Field: "authorization", Message: message}
}

// Unary is the interceptor for a caller that is already in the context. The request may have waited for
// a long time. If rights have changed since then, the caller is authorized again.
func (a *Authenticator) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	caller := CallerOf(ctx)
	if ctx.Value(rightsKey{}) != a.Current.Load() {
		now, err := a.Reauthorize(caller, info.FullMethod)
		if err != nil {
			return nil, err
		}
		caller, ctx = now, WithCaller(ctx, now)
	}
	setCallerRef(ctx, caller)
	if err := a.Authorize(caller, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// MayRead checks that a principal with this name has one of the scopes in a namespace. It is used for the owner of a
// webhook and the maker of a decision link, which may have lost the right. In that case the error is OWNER_LOST_RIGHT.
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
	case now.Certificates == nil, Anonymous.Owns(name), may(now.Certificates.Principal(name)):
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

// selfIdentity identifies the sidecar itself as a caller of its own services.
type selfIdentity struct {
	proof  [sha256.Size]byte
	caller *Caller
}

// Own sets a secret that only this process knows. A caller that sends it is the sidecar itself. The
// other ways of authentication still work. Own must be called once, before the first call is served.
func (a *Authenticator) Own(secret string) {
	a.self = &selfIdentity{proof: sha256.Sum256([]byte(secret)), caller: &Caller{Principal: runtime.Principal{
		Subject: policy.SidecarName, Proof: policy.BySidecar, Scopes: runtime.ScopeWork | runtime.ScopeRunsRead | runtime.ScopeRunsWrite | runtime.ScopeValuesSensitive,
	}}}
}

// ownCaller returns the sidecar's own caller if the sidecar itself made the call. Otherwise it returns
// nil.
func (a *Authenticator) ownCaller(ctx context.Context) *Caller {
	if a.self == nil {
		return nil
	}
	secret, err := mwauth.AuthFromMD(ctx, "bearer")
	proof := sha256.Sum256([]byte(secret))
	if err != nil || subtle.ConstantTimeCompare(proof[:], a.self.proof[:]) != 1 {
		return nil
	}
	return a.self.caller
}

// CallerRef passes the authenticated caller to interceptors that run outside the authentication, for example the
// audit log.
type CallerRef struct{ Caller *Caller }

type callerRefKey struct{}

// WithCallerRef returns a context and its CallerRef, which it makes if ctx has none. The CallerRef contains the
// caller after the authentication, even if the call is refused later.
func WithCallerRef(ctx context.Context) (context.Context, *CallerRef) {
	if ref, ok := ctx.Value(callerRefKey{}).(*CallerRef); ok {
		return ctx, ref
	}
	ref := &CallerRef{}
	return context.WithValue(ctx, callerRefKey{}, ref), ref
}

// RefusedCaller returns the name of the caller of a call that was refused, or "" if the caller was not
// authenticated. ctx has the caller or a CallerRef.
func RefusedCaller(ctx context.Context) string {
	if ref, ok := ctx.Value(callerRefKey{}).(*CallerRef); ok && ref.Caller != nil {
		return ref.Caller.Name()
	}
	return CallerOf(ctx).Name()
}

// setCallerRef stores a caller in the CallerRef of its call, if there is one.
func setCallerRef(ctx context.Context, p *Caller) {
	if ref, ok := ctx.Value(callerRefKey{}).(*CallerRef); ok {
		ref.Caller = p
	}
}

// peerKey is the metadata key for the address of the gateway's client. It is used on the in-process
// connection.
const peerKey = "pawl-peer"

type peerAddress struct{}

// WithPeer returns a context with the address from which an HTTP request came.
func WithPeer(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, peerAddress{}, address)
}

// PeerOf returns the address from which a call came, or "" if it is unknown. It returns "socket" for the Unix socket, and
// "local" for a call of this process itself.
func PeerOf(ctx context.Context) string {
	if address, ok := ctx.Value(peerAddress{}).(string); ok {
		return address
	}
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if info, ok := from.AuthInfo.(connInfo); ok && info.kind == connInProcess {
		md, _ := metadata.FromIncomingContext(ctx)
		if told := md.Get(peerKey); len(told) == 1 {
			return told[0]
		}
		return "local"
	}
	if address := from.Addr.String(); address != "" && address != "@" {
		return address
	}
	return "socket"
}

// GatewayMetadata returns the metadata with which the gateway passes the certificate and the address of
// its client to the server.
func GatewayMetadata(r *http.Request) metadata.MD {
	return metadata.Join(IdentityOf(r.TLS).Metadata(), metadata.Pairs(peerKey, r.RemoteAddr))
}

// named is implemented by every request that belongs to a namespace.
type named interface{ GetNamespace() string }

// tenanted is implemented by every A2A request.
type tenanted interface{ GetTenant() string }

// namespaceOf returns the namespace that a request names. "" means the caller's own namespace. It
// returns false if the request belongs to no namespace.
func namespaceOf(req any) (string, bool) {
	switch in := req.(type) {
	case named:
		return in.GetNamespace(), true
	case tenanted:
		namespace, _ := validate.SplitTenant(in.GetTenant())
		return namespace, true
	}
	return "", false
}

// CheckNamespace returns an error if the caller has no right to the namespace of a request. It is the
// first check of a request. So no other answer reveals whether the namespace exists or what it
// contains. The engine makes the same check again.
func CheckNamespace(p *Caller, req any) error {
	namespace, _ := namespaceOf(req)
	if namespace == "" || p.In(namespace) {
		return nil
	}
	return validate.NotServed(namespace, p.Namespaces)
}

// SpaceOf returns the namespace that a request belongs to. It returns "" if the request belongs to
// none.
func SpaceOf(ctx context.Context, req any) string {
	namespace, ok := namespaceOf(req)
	if !ok {
		return ""
	}
	return cmp.Or(namespace, CallerNamespace(ctx))
}

// CallerNamespace returns the namespace that applies to a caller's requests if they do not name a
// namespace.
func CallerNamespace(ctx context.Context) string {
	return cmp.Or(CallerOf(ctx).DefaultNamespace(), runtime.DefaultNamespace)
}

// Spaces returns the served namespaces that the caller may use. The first one applies to requests that
// do not name a namespace. If the caller is restricted to namespaces that are not served, these are
// left out.
func (p *Caller) Spaces(served []string) []string {
	if p.Bound() {
		return slices.DeleteFunc(slices.Clone(p.Namespaces), func(name string) bool { return !slices.Contains(served, name) })
	}
	others := slices.DeleteFunc(slices.Clone(served), func(name string) bool { return name == runtime.DefaultNamespace })
	return append([]string{runtime.DefaultNamespace}, others...)
}

// inSpace returns an error if the operation concerns all namespaces but the caller is restricted to
// some of them.
func inSpace(p *Caller, op runtime.Operation) error {
	if op.Space != policy.SpaceAll || !p.Bound() {
		return nil
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: "NAMESPACE_BOUND",
		Message: "this is of all namespaces together; principal " + p.Name() + " is kept to some",
	}
}

// hasLostNamespace reports whether a principal has lost a namespace, or has another default namespace now. The first argument has
// its old rights, the second its new ones.
func hasLostNamespace(before, after runtime.Principal) bool {
	return before.DefaultNamespace() != after.DefaultNamespace() || after.Bound() && (!before.Bound() || slices.ContainsFunc(before.Namespaces, func(name string) bool { return !after.In(name) }))
}

// UnaryCheckNamespace is [CheckNamespace] for unary calls.
func UnaryCheckNamespace(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := CheckNamespace(CallerOf(ctx), req); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// StreamCheckNamespace applies [CheckNamespace] to each message of a stream.
func StreamCheckNamespace(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if p := CallerOf(stream.Context()); p.Bound() {
		stream = &boundStream{ServerStream: stream, caller: p}
	}
	return next(srv, stream)
}

// boundStream is the stream of a caller that is restricted to some namespaces.
type boundStream struct {
	grpc.ServerStream
	caller *Caller
}

// RecvMsg implements grpc.ServerStream.
func (s *boundStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return CheckNamespace(s.caller, m)
}

// TraceHeader is the metadata key and the HTTP header of W3C trace context.
const TraceHeader = "traceparent"

// TraceOf returns the trace context of a call, or "". If the call has several trace contexts, it
// returns "", because it is unknown which of them the caller sent.
func TraceOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, TraceHeader); len(values) == 1 {
		return values[0]
	}
	return ""
}
