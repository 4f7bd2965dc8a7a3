package a2a

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// route is one path of the HTTP+JSON binding, with its method.
type route struct {
	// verbs contains the accepted HTTP methods, one after the other.
	verbs  string
	method string
	// fields are the fields of the request whose values are in the path, in order.
	fields []protoreflect.Name
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// routeOf finds the route for the part of a request's path that follows the agent (A2A specification §5.3). It also
// returns the values in the path.
func routeOf(verb, path string) (route, []string, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i := range parts {
		parts[i] = unescape(parts[i])
	}
	switch {
	case len(parts) == 1:
		r, ok := topRoutes[parts[0]]
		return r, nil, ok
	case parts[0] != "tasks":
		return route{}, nil, false
	case len(parts) == 2:
		r, id := taskRoute(parts[1])
		return r, []string{id}, id != ""
	case parts[2] != "pushNotificationConfigs":
		return route{}, nil, false
	case len(parts) == 3 && verb == post:
		return route{post, "CreateTaskPushNotificationConfig", []protoreflect.Name{"task_id"}}, parts[1:2], true
	case len(parts) == 3:
		return route{get, "ListTaskPushNotificationConfigs", []protoreflect.Name{"task_id"}}, parts[1:2], true
	case len(parts) == 4 && verb == http.MethodDelete:
		return route{http.MethodDelete, "DeleteTaskPushNotificationConfig", []protoreflect.Name{"task_id", "id"}}, []string{parts[1], parts[3]}, true
	case len(parts) == 4:
		return route{get, "GetTaskPushNotificationConfig", []protoreflect.Name{"task_id", "id"}}, []string{parts[1], parts[3]}, true
	}
	return route{}, nil, false
}

var topRoutes = map[string]route{
	"message:send":      {post, "SendMessage", nil},
	"message:stream":    {post, "SendStreamingMessage", nil},
	"tasks":             {get, "ListTasks", nil},
	"extendedAgentCard": {get, "GetExtendedAgentCard", nil},
}

// taskRoute returns the route of a path below a task. The text of the specification and its proto file do not agree on the
// HTTP method of :subscribe, so both are accepted.
func taskRoute(segment string) (route, string) {
	id := []protoreflect.Name{"id"}
	if task, ok := strings.CutSuffix(segment, ":cancel"); ok {
		return route{post, "CancelTask", id}, task
	}
	if task, ok := strings.CutSuffix(segment, ":subscribe"); ok {
		return route{get + post, "SubscribeToTask", id}, task
	}
	return route{get, "GetTask", id}, segment
}

// serveREST serves the HTTP+JSON binding.
func (s *Service) serveREST(w http.ResponseWriter, r *http.Request, t target) {
	found, values, ok := routeOf(r.Method, t.rest)
	if !ok || !strings.Contains(found.verbs, r.Method) {
		s.writeError(w, r, methodNotAllowed(r))
		return
	}
	m := methods[found.method]
	ctx, err := s.admit(r, m.full)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	in, err := s.readREST(r, m, found, values)
	if err == nil {
		err = setTenant(in, t.tenant)
	}
	if err == nil {
		err = s.host.CheckNamespace(ctx, m.full, in)
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	writeActivatedExtensions(ctx, w)
	if m.stream != nil {
		out := &events{w: w, frame: func(data []byte) []byte { return data }}
		err := m.stream(s, ctx, in, out.send)
		s.host.Completed(ctx, m.full, in, err)
		switch {
		case err != nil && out.headerSent:
			out.fault(s.statusBody(r, err))
		case err != nil:
			s.writeError(w, r, err)
		}
		return
	}
	out, err := m.unary(s, ctx, in)
	s.host.Completed(ctx, m.full, in, err)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	data, err := marshal(out)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, answerMedia(r), data)
}

// answerMedia returns the media type of an answer: the protocol's own (A2A specification §11.1), or plain JSON for
// clients that accept only that.
func answerMedia(r *http.Request) string {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.Contains(accept, mediaJSON) && !strings.Contains(accept, mediaA2A) {
		return mediaJSON
	}
	return mediaA2A
}

// readREST decodes a request from body, query and path.
func (s *Service) readREST(r *http.Request, m *method, found route, values []string) (proto.Message, error) {
	in := m.request()
	if r.Method == post {
		raw, err := s.body(r)
		if err != nil {
			return nil, err
		}
		if len(raw) > 0 {
			if err := unmarshal(raw, in); err != nil {
				return nil, failAt(invalidParams, "(body)", "%v", err)
			}
		} else if len(found.fields) == 0 {
			return nil, failAt(invalidParams, "(body)", "is required")
		}
	} else if err := readQuery(r.URL.Query(), in); err != nil {
		return nil, err
	}
	for i, name := range found.fields {
		if err := setPath(in, name, values[i]); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// setPath sets a field to its value in the path. The body may repeat the value.
func setPath(in proto.Message, name protoreflect.Name, value string) error {
	field := in.ProtoReflect().Descriptor().Fields().ByName(name)
	if current := in.ProtoReflect().Get(field).String(); current != "" && current != value {
		return failAt(invalidParams, field.JSONName(), "is %q, the path says %q", clip(current, 100), clip(value, 100))
	}
	in.ProtoReflect().Set(field, stringValue(value))
	return nil
}

func stringValue(s string) protoreflect.Value { return protoreflect.ValueOfString(s) }

// queryAliases maps names that some clients use to those of the specification.
var queryAliases = map[string]string{"lastUpdatedAfter": "statusTimestampAfter"}

// readQuery sets the fields of a request from the parameters of a URL, in camelCase or snake_case. It ignores unknown
// parameters.
func readQuery(query url.Values, in proto.Message) error {
	object := map[string]json.RawMessage{}
	fields := in.ProtoReflect().Descriptor().Fields()
	for key, values := range query {
		if alias := queryAliases[key]; alias != "" {
			key = alias
		}
		field := fields.ByJSONName(key)
		if field == nil {
			field = fields.ByTextName(key)
		}
		if field == nil || len(values) == 0 {
			continue
		}
		object[field.JSONName()] = queryValue(field, values[0])
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return failAt(invalidParams, "(query)", "has a value that is none")
	}
	if err := (protojson.UnmarshalOptions{}).Unmarshal(raw, in); err != nil {
		return failAt(invalidParams, "(query)", "%v", err)
	}
	return nil
}

// queryValue converts a text of a query to the JSON of a field. ProtoJSON accepts numbers in strings, but no booleans.
func queryValue(field protoreflect.FieldDescriptor, text string) json.RawMessage {
	if field.Kind() == protoreflect.BoolKind && (text == "true" || text == "false") {
		return json.RawMessage(text)
	}
	if field.Message() != nil && field.Message().FullName() == (&timestamppb.Timestamp{}).ProtoReflect().Descriptor().FullName() {
		// A plus sign that the client did not escape was decoded as a space.
		text = strings.ReplaceAll(text, " ", "+")
	}
	raw, _ := json.Marshal(text)
	return raw
}

// statusError is the JSON body of an error (AIP-193).
type statusError struct {
	Code    int               `json:"code"`
	Status  string            `json:"status"`
	Message string            `json:"message"`
	Details []json.RawMessage `json:"details,omitempty"`
}

func (s *Service) statusBody(r *http.Request, err error) []byte {
	e := s.problem(r.Context(), r.Method+" "+r.URL.Path, err)
	body, _ := json.Marshal(map[string]any{"error": statusError{
		Code: e.kind.http, Status: codeName(e.kind.code), Message: clip(e.message, maxErrorText), Details: e.typed(),
	}})
	return body
}

func (s *Service) writeError(w http.ResponseWriter, r *http.Request, err error) {
	e, _ := errorOf(err)
	if e.kind.http == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, e.kind.http, mediaJSON, s.statusBody(r, err))
}

// codeName returns the name of a gRPC code in UPPER_SNAKE.
func codeName(c codes.Code) string {
	if c == codes.Canceled {
		return "CANCELLED"
	}
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}
