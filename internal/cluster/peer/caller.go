package peer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Keys of what goes along with a call. Over HTTP they are headers, the caller in base64.
const (
	callerKey = "pawl-caller-bin"
	spaceKey  = "pawl-space"
	traceKey  = "pawl-trace-bin"

	callerHeader = "Pawl-Caller"
	peerHeader   = "Pawl-Peer"
	ourHeaders   = "Pawl-"
)

// passed are the keys of a caller's own that services read. All others stay where they came in.
var passed = []string{door.TraceHeader, "a2a-version", "a2a-extensions", "idempotency-key", "last-event-id"}

// outgoing is the context of a call to another node on behalf of that of ctx.
func outgoing(ctx context.Context) (context.Context, error) {
	who, err := json.Marshal(door.CallerOf(ctx).Principal)
	if err != nil {
		return nil, err
	}
	md := metadata.MD{callerKey: {string(who)}}
	if space := door.SpaceIn(ctx); space != "" {
		md[spaceKey] = []string{space}
	}
	for _, key := range passed {
		if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
			md[key] = values
		}
	}
	// A command of a stream has one of its own, which is any text.
	if trace := door.TraceOf(ctx); trace != "" && (len(md[door.TraceHeader]) != 1 || md[door.TraceHeader][0] != trace) {
		md[traceKey] = []string{trace}
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// incoming is the context of a call that another node makes.
func incoming(ctx context.Context) (context.Context, error) {
	who, err := readCaller([]byte(one(ctx, callerKey)))
	if err != nil {
		return nil, err
	}
	ctx = door.WithCaller(ctx, who)
	if trace := one(ctx, traceKey); trace != "" {
		ctx = door.WithTrace(ctx, trace)
	}
	if space := one(ctx, spaceKey); space != "" {
		ctx = door.WithSpace(ctx, space)
	}
	return ctx, nil
}

func readCaller(text []byte) (*door.Caller, error) {
	var who runtime.Principal
	if err := json.Unmarshal(text, &who); err != nil {
		return nil, &machine.Refusal{Code: machine.CodeInvalidArgument, Reason: "BAD_PEER_CALL", Field: callerKey, Message: "a node of the cluster sends its caller with every call"}
	}
	return &door.Caller{Principal: who}, nil
}

func one(ctx context.Context, key string) string {
	if values := metadata.ValueFromIncomingContext(ctx, key); len(values) == 1 {
		return values[0]
	}
	return ""
}

// outgoingHTTP is outgoing for a request that it may change. What proved the caller's name stays
// here.
func outgoingHTTP(r *http.Request) error {
	for name := range r.Header {
		if strings.HasPrefix(name, ourHeaders) {
			delete(r.Header, name)
		}
	}
	r.Header.Del("Authorization")
	who, err := json.Marshal(door.CallerOf(r.Context()).Principal)
	if err != nil {
		return err
	}
	r.Header.Set(callerHeader, base64.StdEncoding.EncodeToString(who))
	r.Header.Set(peerHeader, door.PeerOf(r.Context()))
	return nil
}

// incomingHTTP is the request of another node's caller, as if it had come here.
func incomingHTTP(r *http.Request) (*http.Request, error) {
	text, err := base64.StdEncoding.DecodeString(r.Header.Get(callerHeader))
	if err != nil {
		text = nil
	}
	who, err := readCaller(text)
	if err != nil {
		return nil, err
	}
	from := r.Header.Get(peerHeader)
	in := r.WithContext(door.WithPeer(door.WithCaller(r.Context(), who), from))
	in.Header.Del(callerHeader)
	in.Header.Del(peerHeader)
	// The connection is the node's: its certificate is not the caller's.
	in.RemoteAddr, in.TLS = from, nil
	return in, nil
}
