package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"

	mwauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// own identifies the sidecar itself as a caller of its own services.
type own struct {
	proof  [sha256.Size]byte
	caller *Caller
}

// Own sets a secret that only this process knows. A caller that sends it is the sidecar itself. The
// other ways of authentication still work. Own must be called once, before the first call is served.
func (a *Authenticator) Own(secret string) {
	a.own = &own{proof: sha256.Sum256([]byte(secret)), caller: &Caller{Principal: runtime.Principal{
		Subject: policy.SidecarName, Proof: policy.BySidecar, Scopes: runtime.ScopeWork | runtime.ScopeRunsRead | runtime.ScopeRunsWrite | runtime.ScopeValuesSensitive,
	}}}
}

// ownCaller returns the sidecar's own caller if the sidecar itself made the call. Otherwise it returns
// nil.
func (a *Authenticator) ownCaller(ctx context.Context) *Caller {
	if a.own == nil {
		return nil
	}
	secret, err := mwauth.AuthFromMD(ctx, "bearer")
	proof := sha256.Sum256([]byte(secret))
	if err != nil || subtle.ConstantTimeCompare(proof[:], a.own.proof[:]) != 1 {
		return nil
	}
	return a.own.caller
}
