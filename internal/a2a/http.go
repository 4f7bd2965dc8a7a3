package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Prefix is the path under which every agent is served: Prefix/PACK/AGENT.
const Prefix = "/a2a"

// cardPath is the path of an agent's card, below the path of the agent.
const cardPath = "/.well-known/agent-card.json"

// Media types of requests and answers.
const (
	mediaJSON   = "application/json"
	mediaA2A    = "application/a2a+json"
	mediaEvents = "text/event-stream"
)

// target is the agent, and the resource of the agent, that the path of an HTTP request names.
type target struct {
	// tenant is the tenant of the agent. "" means the root agent.
	tenant string
	// rest is the path after the path of the agent. It is "" or begins with a slash.
	rest string
}

// MatchesPath reports whether a path belongs to the HTTP bindings. These are all paths below Prefix, the
// root path, and the paths of the protocol at the root. The latter may be below a tenant.
func MatchesPath(path string) bool {
	_, ok := targetOf(path)
	return ok
}

// targetOf parses a path. Below Prefix, a first segment that ends in a colon names a namespace and no agent.
// At the root, a tenant is one or two segments, because a slash in a tenant may or may not be escaped.
func targetOf(path string) (target, bool) {
	if below, ok := strings.CutPrefix(path, Prefix+"/"); ok {
		if space, rest, _ := strings.Cut(below, "/"); strings.HasSuffix(unescape(space), ":") {
			return target{tenant: unescape(space), rest: strings.TrimSuffix("/"+rest, "/")}, true
		}
		parts := strings.SplitN(below, "/", 3)
		if len(parts) < 2 || parts[1] == "" {
			return target{rest: path}, true
		}
		rest := ""
		if len(parts) == 3 && parts[2] != "" {
			rest = "/" + parts[2]
		}
		return target{tenant: unescape(parts[0]) + "/" + unescape(parts[1]), rest: rest}, true
	}
	for i := range len(path) {
		if path[i] != '/' || !known(path[i:]) {
			continue
		}
		tenant := strings.Trim(path[:i], "/")
		if strings.Count(tenant, "/") > 1 || tenant == "v1" || strings.HasPrefix(tenant, "v1/") {
			return target{}, false
		}
		return target{tenant: unescape(tenant), rest: path[i:]}, true
	}
	return target{}, path == "/"
}

func unescape(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}

// known reports whether a path begins with a resource of the HTTP+JSON binding, or is the path of a
// card.
func known(path string) bool {
	switch path {
	case cardPath, "/message:send", "/message:stream", "/tasks", "/extendedAgentCard":
		return true
	}
	return strings.HasPrefix(path, "/tasks/")
}

// Handler returns the handler for the cards and the two HTTP bindings. The server must already have
// checked the host and the origin of a request.
func (s *Service) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answerWriter{ResponseWriter: w}
		w = answer
		defer s.recovered(answer, r)
		t, _ := targetOf(r.URL.EscapedPath())
		switch t.rest {
		case cardPath:
			s.serveCard(w, r, t.tenant)
		case "":
			s.serveRPC(w, r, t.tenant)
		default:
			s.serveREST(w, r, t)
		}
	})
}

// recovered answers a panic with an error. If the answer was already begun, it logs the error and breaks the connection
// off, so that the client does not take the begun answer for a whole one.
func (s *Service) recovered(w *answerWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	if !w.begun {
		s.writeError(w, r, err)
		return
	}
	s.statusBody(r, err) // logs the error
	panic(http.ErrAbortHandler)
}

// answerWriter knows whether an answer was begun.
type answerWriter struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *answerWriter) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *answerWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] find the writer of the server.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// admit authenticates the caller, and copies the service parameters from the HTTP headers to the gRPC metadata.
func (s *Service) admit(r *http.Request, method string) (context.Context, error) {
	ctx, err := s.host.Admit(r, method)
	if err != nil {
		return nil, err
	}
	md := metadata.MD{}
	for _, name := range serviceParameters {
		if values := r.Header.Values(name); len(values) > 0 {
			md.Append(name, values...)
		}
	}
	if query := r.URL.Query(); len(md.Get(versionHeader)) == 0 && query.Has(versionQuery) {
		md.Set(versionHeader, query.Get(versionQuery))
	}
	return metadata.NewIncomingContext(ctx, md), nil
}

// body reads the body of a request up to the size limit. A missing body is treated as empty.
func (s *Service) body(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, int64(s.cfg.MaxMessageBytes)+1))
	var over *http.MaxBytesError
	if errors.As(err, &over) || len(raw) > s.cfg.MaxMessageBytes {
		e := fail(tooLarge, "the body has more than %d bytes", s.cfg.MaxMessageBytes)
		e.domain, e.reason = engineDomain, "MESSAGE_TOO_LARGE"
		e.metadata = map[string]string{"limit": strconv.Itoa(s.cfg.MaxMessageBytes)}
		return nil, e
	}
	if err != nil {
		return nil, fail(invalidRequest, "the body could not be read")
	}
	if len(raw) > 0 && !acceptsContentType(r.Header.Get("Content-Type")) {
		return nil, failAt(contentType, "Content-Type", "want %s or %s", mediaJSON, mediaA2A)
	}
	return raw, nil
}

func acceptsContentType(header string) bool {
	kind, params, err := mime.ParseMediaType(header)
	charset, set := params["charset"]
	return err == nil && (kind == mediaJSON || kind == mediaA2A) && (!set || strings.EqualFold(charset, "utf-8"))
}

// dispatch calls a unary method with a decoded request.
func dispatch[In, Out proto.Message](ctx context.Context, in In, do func(context.Context, In) (Out, error)) (proto.Message, error) {
	out, err := do(ctx, in)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// serveCard serves an agent's public card (A2A specification §8.2).
func (s *Service) serveCard(w http.ResponseWriter, r *http.Request, tenant string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		s.writeError(w, r, methodNotAllowed(r))
		return
	}
	// An error, or a card that requires a right, must not be cached.
	w.Header().Set("Cache-Control", "private, no-store")
	ctx, err := s.admitCard(r, tenant)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	caller := s.caller(ctx, tenant)
	a, err := s.agentOf(ctx, caller, tenant)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	registered, err := s.cfg.Engine.PackRegistered(ctx, readerFor(caller), a.ref)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	card := s.card(a)
	body, err := marshal(card)
	if err == nil && s.cfg.CardKey != nil {
		// The tag is computed from the content that is signed and not from the signature, because some kinds of
		// signatures differ each time.
		w.Header().Set("ETag", etag(append(body, s.cfg.CardKey.ID...)))
		if err = s.sign(card); err == nil {
			body, err = marshal(card)
		}
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	if w.Header().Get("ETag") == "" {
		w.Header().Set("ETag", etag(body))
	}
	w.Header().Set("Content-Type", mediaJSON)
	if space, _ := validate.SplitTenant(tenant); space == "" {
		w.Header().Set("Cache-Control", "public, max-age=60, must-revalidate")
	}
	http.ServeContent(w, r, "", time.Unix(0, registered), bytes.NewReader(body))
}

// admitCard permits every client to read the cards at paths without a namespace. These cards belong to
// the default namespace. A card of another namespace requires a right to that namespace.
func (s *Service) admitCard(r *http.Request, tenant string) (context.Context, error) {
	if space, _ := validate.SplitTenant(tenant); space == "" {
		return r.Context(), nil
	}
	ctx, err := s.host.Admit(r, a2apb.A2AService_GetExtendedAgentCard_FullMethodName)
	if err == nil {
		err = s.host.CheckNamespace(ctx, a2apb.A2AService_GetExtendedAgentCard_FullMethodName, &a2apb.GetExtendedAgentCardRequest{Tenant: tenant})
	}
	return ctx, err
}

// setTenant sets the tenant of a request to the tenant in the path. It returns an error if the request
// names another tenant.
func setTenant(m proto.Message, tenant string) error {
	field := m.ProtoReflect().Descriptor().Fields().ByName("tenant")
	current := m.ProtoReflect().Get(field).String()
	if tenant == "" || current == tenant {
		return nil
	}
	if current != "" {
		return failAt(invalidParams, "tenant", "is %q, the path is of %q", clip(current, 200), tenant)
	}
	m.ProtoReflect().Set(field, stringValue(tenant))
	return nil
}

func methodNotAllowed(r *http.Request) *Error {
	e := fail(methodNotFound, "%s %s is no method of this binding", r.Method, clip(r.URL.Path, 200))
	return e
}

// method is one of the eleven methods of the protocol, in the form in which the HTTP bindings call it.
type method struct {
	full string
	// request returns an empty request.
	request func() proto.Message
	// Either unary or stream is set.
	unary  func(*Service, context.Context, proto.Message) (proto.Message, error)
	stream func(*Service, context.Context, proto.Message, sendFunc) error
}

func unaryMethod[In, Out proto.Message](full string, request func() In, do func(*Service, context.Context, In) (Out, error)) *method {
	return &method{
		full: full, request: func() proto.Message { return request() },
		unary: func(s *Service, ctx context.Context, in proto.Message) (proto.Message, error) {
			return dispatch(ctx, in.(In), func(ctx context.Context, in In) (Out, error) { return do(s, ctx, in) })
		},
	}
}

func streamMethod[In proto.Message](full string, request func() In, do func(*Service, context.Context, In, sendFunc) error) *method {
	return &method{
		full: full, request: func() proto.Message { return request() },
		stream: func(s *Service, ctx context.Context, in proto.Message, to sendFunc) error {
			return do(s, ctx, in.(In), to)
		},
	}
}

func empty[T any]() *T { return new(T) }

// methods has the methods by their JSON-RPC names.
var methods = map[string]*method{
	"SendMessage":                      unaryMethod(a2apb.A2AService_SendMessage_FullMethodName, empty[a2apb.SendMessageRequest], (*Service).sendMessage),
	"SendStreamingMessage":             streamMethod(a2apb.A2AService_SendStreamingMessage_FullMethodName, empty[a2apb.SendMessageRequest], (*Service).streamMessage),
	"GetTask":                          unaryMethod(a2apb.A2AService_GetTask_FullMethodName, empty[a2apb.GetTaskRequest], (*Service).getTask),
	"ListTasks":                        unaryMethod(a2apb.A2AService_ListTasks_FullMethodName, empty[a2apb.ListTasksRequest], (*Service).listTasks),
	"CancelTask":                       unaryMethod(a2apb.A2AService_CancelTask_FullMethodName, empty[a2apb.CancelTaskRequest], (*Service).cancelTask),
	"SubscribeToTask":                  streamMethod(a2apb.A2AService_SubscribeToTask_FullMethodName, empty[a2apb.SubscribeToTaskRequest], (*Service).subscribe),
	"CreateTaskPushNotificationConfig": unaryMethod(a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName, empty[a2apb.TaskPushNotificationConfig], (*Service).createPush),
	"GetTaskPushNotificationConfig":    unaryMethod(a2apb.A2AService_GetTaskPushNotificationConfig_FullMethodName, empty[a2apb.GetTaskPushNotificationConfigRequest], (*Service).getPush),
	"ListTaskPushNotificationConfigs":  unaryMethod(a2apb.A2AService_ListTaskPushNotificationConfigs_FullMethodName, empty[a2apb.ListTaskPushNotificationConfigsRequest], (*Service).listPush),
	"DeleteTaskPushNotificationConfig": unaryMethod(a2apb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName, empty[a2apb.DeleteTaskPushNotificationConfigRequest], (*Service).deletePush),
	"GetExtendedAgentCard":             unaryMethod(a2apb.A2AService_GetExtendedAgentCard_FullMethodName, empty[a2apb.GetExtendedAgentCardRequest], (*Service).extendedCard),
}
