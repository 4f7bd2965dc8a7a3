package transport

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// These are the metadata keys, and the HTTP headers, that a node adds to a call that it forwards to
// another node. The value of the header for the caller is base64.
const (
	callerKey = "pawl-caller-bin"
	partKey   = "pawl-part"

	callerHeader = "Pawl-Caller"
	partHeader   = "Pawl-Part"
	peerHeader   = "Pawl-Peer"
	ourHeaders   = "Pawl-"
)

// forwardedKeys are the metadata keys of the original caller that are forwarded to the other node, because
// services read them. All other keys are dropped.
var forwardedKeys = []string{auth.TraceHeader, "a2a-version", "a2a-extensions", "idempotency-key", "last-event-id"}

// outgoing returns the context for a call to another node. It contains the partition and the
// authenticated caller of ctx.
func outgoing(ctx context.Context, part int32) (context.Context, error) {
	who, err := json.Marshal(auth.CallerOf(ctx).Wire())
	if err != nil {
		return nil, err
	}
	md := metadata.MD{callerKey: {string(who)}, partKey: {formatPart(part)}}
	for _, key := range forwardedKeys {
		if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
			md[key] = values
		}
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// incoming returns the context of a call that another node forwarded, with the original caller in it.
// It also returns the partition of the call.
func incoming(ctx context.Context) (context.Context, int32, error) {
	who, err := readCaller([]byte(one(ctx, callerKey)))
	if err != nil {
		return ctx, 0, err
	}
	part, err := readPart(partKey, one(ctx, partKey))
	if err != nil {
		return ctx, 0, err
	}
	return auth.WithCaller(ctx, who), part, nil
}

func formatPart(part int32) string { return strconv.Itoa(int(part)) }

// readPart parses the number of a partition. key is the metadata key of the number and is named in the
// error.
func readPart(key, text string) (int32, error) {
	part, err := strconv.ParseUint(text, 10, 31)
	if err != nil || part >= router.Partitions {
		allowed := "0 to " + formatPart(router.Partitions-1)
		return 0, badCall(key, "a node of the cluster sends the number of a partition with every call: "+allowed, allowed)
	}
	return int32(part), nil
}

// badCall returns the error for a call from another node with missing or invalid metadata. No node of
// this version sends such a call.
func badCall(key, message string, allowed ...string) error {
	return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "BAD_PEER_CALL", Field: key, Message: message, Allowed: allowed}
}

func readCaller(text []byte) (*auth.Caller, error) {
	var who runtime.WiredPrincipal
	if err := strictjson.Decode(text, &who, strictjson.Open); err != nil {
		return nil, badCall(callerKey, "a node of the cluster sends its caller with every call")
	}
	return &auth.Caller{Principal: who.Principal()}, nil
}

func one(ctx context.Context, key string) string {
	return singleValue(metadata.ValueFromIncomingContext(ctx, key))
}

// singleValue returns the only value of a metadata key or header. If there are none or several, it returns "".
func singleValue(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// outgoingHTTP prepares an HTTP request for another node. It changes r: it adds the caller, the caller's
// network address and the partition, and removes the caller's own headers that begin with Pawl- and the
// Authorization header, which must not leave this node.
func outgoingHTTP(r *http.Request, part int32) error {
	for name := range r.Header {
		if strings.HasPrefix(name, ourHeaders) {
			delete(r.Header, name)
		}
	}
	r.Header.Del("Authorization")
	who, err := json.Marshal(auth.CallerOf(r.Context()).Wire())
	if err != nil {
		return err
	}
	r.Header.Set(callerHeader, base64.StdEncoding.EncodeToString(who))
	r.Header.Set(partHeader, formatPart(part))
	r.Header.Set(peerHeader, auth.PeerOf(r.Context()))
	return nil
}

// incomingHTTP converts a request that another node forwarded to the form that it would have if its
// original caller had sent it to this node. It also returns the partition of the request.
func incomingHTTP(r *http.Request) (*http.Request, int32, error) {
	text, err := base64.StdEncoding.DecodeString(r.Header.Get(callerHeader))
	if err != nil {
		text = nil // readCaller refuses it
	}
	who, err := readCaller(text)
	if err != nil {
		return nil, 0, err
	}
	part, err := readPart(partHeader, singleValue(r.Header.Values(partHeader)))
	if err != nil {
		return nil, 0, err
	}
	from := r.Header.Get(peerHeader)
	in := r.WithContext(auth.WithPeer(auth.WithCaller(r.Context(), who), from))
	for _, name := range []string{callerHeader, partHeader, peerHeader} {
		in.Header.Del(name)
	}
	// The TLS connection belongs to the other node, so its address and certificate are not those of the
	// caller.
	in.RemoteAddr, in.TLS = from, nil
	return in, part, nil
}
