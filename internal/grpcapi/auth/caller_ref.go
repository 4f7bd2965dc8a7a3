package auth

import (
	"context"
	"net/http"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// CallerRef passes the caller from the authentication to interceptors that began before it.
type CallerRef struct{ Caller *Caller }

type callerRefKey struct{}

// WithCallerRef returns a context and a CallerRef. The CallerRef contains the caller after the
// authentication, even if the call is refused later.
func WithCallerRef(ctx context.Context) (context.Context, *CallerRef) {
	ref := &CallerRef{}
	return context.WithValue(ctx, callerRefKey{}, ref), ref
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

// PeerOf returns the address from which a call came, or "" if it is unknown.
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
