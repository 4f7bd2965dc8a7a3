package a2a

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
)

// These are the service parameters of a call. They are HTTP headers or gRPC metadata, in upper or lower
// case.
const (
	versionHeader     = "A2a-Version"
	extensionsHeader  = "A2a-Extensions"
	idempotencyHeader = "Idempotency-Key"
	lastEventHeader   = "Last-Event-ID"
)

// versionQuery is the query parameter that may contain the version instead of the header.
const versionQuery = "A2A-Version"

// serviceParameters are the headers of a call that the service reads from the gRPC metadata.
var serviceParameters = []string{versionHeader, extensionsHeader, idempotencyHeader, lastEventHeader}

// call has the service parameters of a call.
type call struct {
	version    string
	extensions []string
	// idempotencyKey is the key by which a repeat is recognized. It is "" if the caller sent none.
	idempotencyKey string
	// lastEvent is the id of the last event that the client received. "" means that this is a new
	// stream.
	lastEvent string
}

// callOf reads the service parameters from the gRPC metadata. The HTTP bindings copy their headers to
// the metadata.
func callOf(ctx context.Context) call {
	md, _ := metadata.FromIncomingContext(ctx)
	first := func(key string) string {
		if values := md.Get(key); len(values) > 0 {
			return strings.TrimSpace(values[0])
		}
		return ""
	}
	c := call{version: first(versionHeader), idempotencyKey: first(idempotencyHeader), lastEvent: first(lastEventHeader)}
	for uri := range strings.SplitSeq(strings.Join(md.Get(extensionsHeader), ","), ",") {
		if uri = strings.TrimSpace(uri); uri != "" && !slices.Contains(c.extensions, uri) {
			c.extensions = append(c.extensions, uri)
		}
	}
	return c
}

func (c *call) requestsExtension(uri string) bool { return slices.Contains(c.extensions, uri) }

// ourVersion matches the supported version in the form Major.Minor. The patch number is ignored.
var ourVersion = regexp.MustCompile(`^1\.0(\.[0-9]+)?$`)

// negotiate checks the version and the extensions of a call. A call without a version counts as version
// 0.3 (A2A specification §3.6) and is refused, unless the operator permits it.
func (s *Service) negotiate(ctx context.Context) (call, error) {
	c := callOf(ctx)
	if !ourVersion.MatchString(c.version) && (c.version != "" || !s.cfg.LenientVersion) {
		version := c.version
		if version == "" {
			version = "0.3 (none was sent)"
		}
		e := fail(versionNotSupported, "version %s is not spoken here; send the header %s: %s", clip(version, 64), versionHeader, protocol.ProtocolVersion)
		e.metadata = map[string]string{"supported": protocol.ProtocolVersion}
		return c, e
	}
	for _, uri := range s.cfg.RequiredExtensions {
		if !c.requestsExtension(uri) {
			e := fail(extensionRequired, "this agent takes only callers that send %s: %s", extensionsHeader, uri)
			e.metadata = map[string]string{"extension": uri}
			return c, e
		}
	}
	if uris := c.activatedExtensions(); uris != "" {
		// The HTTP bindings set this header themselves.
		_ = grpc.SetHeader(ctx, metadata.Pairs(strings.ToLower(extensionsHeader), uris))
	}
	return c, nil
}

// activatedExtensions returns the requested extensions that the service supports. The answer must contain them.
func (c *call) activatedExtensions() string {
	var uris []string
	for _, uri := range c.extensions {
		if slices.Contains(Extensions, uri) {
			uris = append(uris, uri)
		}
	}
	return strings.Join(uris, ", ")
}

// Extensions lists the extensions that every agent declares.
var Extensions = []string{protocol.DelegationURI, protocol.IdempotentURI, protocol.ApprovalURI}
