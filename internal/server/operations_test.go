package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/pawl-dev/pawl/gen"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/test/testkit"
)

// The one table of operations against the real process: every method that its own reflection lists,
// every path of its gateway, every binding of A2A, the page and the metrics. Each is called without
// credentials, and with each scope by itself in the principal's own namespace, in another
// principal's, and in one that does not exist.

// kept has the sets of namespaces. The process has a principal for each scope and each set.
var kept = map[string]string{"free": "", "red": "@red", "home": "@default"}

func keyOf(scope, where string) string { return "key-of-" + scope + "-in-" + where + "-0123456789" }

// probe is one way to ask for an operation.
type probe struct {
	op policy.Operation
	// transport is the transport of the request.
	transport string
	// ask makes the request for a namespace ("": the request names none) with a bearer token ("":
	// without one). It returns the reason of the error, or "" if there is no error or no reason.
	ask func(token, namespace string) string
	// names says that the request can name a namespace.
	names bool
}

// refusals are the reasons with which authentication and authorization refuse.
var refusals = []string{
	"TOKEN_MISSING", "TOKEN_UNKNOWN", "SCOPE_MISSING", "NAMESPACE_NOT_FOUND", "NAMESPACE_BOUND",
}

// TestEveryOperationOverEveryTransport is the whole table, operation x right x namespace x
// transport.
func TestEveryOperationOverEveryTransport(t *testing.T) {
	t.Parallel()
	r := newOperationsRig(t)
	probes := slices.Concat(r.overGRPC(), r.overGateway(), r.overA2A(), r.overWeb())
	seen := map[string]int{}
	for _, p := range probes {
		seen[p.op.Name]++
		r.hold(p)
	}
	for _, op := range policy.Operations {
		if seen[op.Name] == 0 {
			t.Errorf("%s was never asked for", op.Name)
		}
	}
	testkit.ReportTried(t, r.calls, "calls")
	t.Logf("%d ways to %d operations", len(probes), len(seen))
}

// hold asks for an operation without a token, with an unknown token, and with the token of each scope.
func (r *operationsRig) hold(p probe) {
	r.t.Helper()
	if p.op.Public {
		r.want(p, "", "", "")
		return
	}
	r.want(p, "", "", "TOKEN_MISSING")
	r.want(p, "nobody-knows-this-token", "", "TOKEN_UNKNOWN")
	where := map[policy.Space]string{policy.SpaceNamed: "red", policy.SpaceAll: "free", policy.SpaceNone: "red"}[p.op.Space]
	for _, scope := range auth.EveryScope {
		want := "SCOPE_MISSING"
		if p.op.Scopes == 0 || scope == policy.Admin || p.op.Scopes&scope != 0 {
			want = ""
		}
		r.want(p, keyOf(scope.String(), where), "", want)
		if p.names {
			r.want(p, keyOf(scope.String(), where), "red", want)
		}
		if want == "" {
			r.checkOtherNamespace(p, scope.String())
		}
	}
}

// checkOtherNamespace asks with the right scope for namespaces that the principal does not have.
func (r *operationsRig) checkOtherNamespace(p probe, scope string) {
	r.t.Helper()
	switch p.op.Space {
	case policy.SpaceNamed:
		if !p.names {
			r.t.Errorf("%s over %s is of a namespace, and its request cannot name one", p.op.Name, p.transport)
		}
		// The answer is the same for another principal's namespace, for one that does not
		// exist, and for the default one.
		for _, other := range []string{"blue", "nowhere", "default"} {
			r.want(p, keyOf(scope, "red"), other, "NAMESPACE_NOT_FOUND")
		}
		r.want(p, keyOf(scope, "free"), "blue", "")
	case policy.SpaceAll:
		r.want(p, keyOf(scope, "red"), "", "NAMESPACE_BOUND")
	case policy.SpaceNone:
	}
}

// want asks once. "" means that authentication and authorization let the request pass.
func (r *operationsRig) want(p probe, token, namespace, want string) {
	r.t.Helper()
	r.calls++
	got := p.ask(token, namespace)
	if want == "" && !slices.Contains(refusals, got) {
		return
	}
	if got != want {
		r.t.Errorf("%s over %s, token %q, namespace %q: %q, want %q", p.op.Name, p.transport, token, namespace, got, want)
	}
}

type operationsRig struct {
	t     *testing.T
	s     *runningSidecar
	conn  *grpc.ClientConn
	table map[string]policy.Operation
	calls int
}

func newOperationsRig(t *testing.T, change ...func(*config.Config)) *operationsRig {
	t.Helper()
	var lines []string
	for _, scope := range auth.EveryScope {
		for where, suffix := range kept {
			line, err := auth.TokenLine(scope.String()+"/"+where, scope.String()+suffix, keyOf(scope.String(), where))
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line)
		}
	}
	c := settings(t)
	c.TokensFile = filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(c.TokensFile, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Packs = []string{packAt(t)}
	c.Namespaces, c.HTTP, c.Metrics, c.Channelz = []string{"red", "blue"}, "127.0.0.1:0", "127.0.0.1:0", true
	for _, f := range change {
		f(&c)
	}
	r := &operationsRig{t: t, s: operating(t, c), table: map[string]policy.Operation{}}
	r.conn = dial(t, r.s.ready.GRPC)
	for _, op := range policy.Operations {
		r.table[op.Name] = op
	}
	return r
}

// operating is a sidecar that ends with the test.
func operating(t *testing.T, c config.Config) *runningSidecar {
	t.Helper()
	s := serve(t, c)
	t.Cleanup(func() {
		s.stop()
		if err := <-s.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// row returns the row of an operation. A new operation has none.
func (r *operationsRig) row(name string) policy.Operation {
	r.t.Helper()
	op, ok := r.table[name]
	if !ok {
		r.t.Errorf("%s has no row in policy.Operations", name)
	}
	return op
}

// services returns the services that the process lists.
func (r *operationsRig) services() []protoreflect.ServiceDescriptor {
	r.t.Helper()
	ctx := metadata.AppendToOutgoingContext(r.t.Context(), "authorization", "Bearer "+keyOf("work", "free"))
	stream, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	list := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(list); err != nil {
		r.t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	var all []protoreflect.ServiceDescriptor
	for _, s := range got.GetListServicesResponse().GetService() {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.GetName()))
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, found.(protoreflect.ServiceDescriptor))
	}
	return all
}

func (r *operationsRig) overGRPC() []probe {
	var all []probe
	for _, service := range r.services() {
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			path := fmt.Sprintf("/%s/%s", service.FullName(), m.Name())
			op := r.row(path)
			names := m.Input().Fields().ByName("namespace") != nil || m.Input().Fields().ByName("tenant") != nil
			if strings.HasPrefix(path, "/pawl.") && op.Space == policy.SpaceNamed && !names {
				r.t.Errorf("the request of %s has no field namespace", path)
			}
			all = append(all, probe{op: op, transport: "gRPC", names: names, ask: func(token, namespace string) string {
				return reasonOfError(r.call(m, path, token, requestOf(m.Input(), namespace)))
			}})
		}
	}
	return all
}

// tenantIn names an agent of a namespace, "" = of the caller's own.
func tenantIn(namespace string) string {
	if namespace == "" {
		return "team/lead"
	}
	return namespace + ":team/lead"
}

func requestOf(of protoreflect.MessageDescriptor, namespace string) proto.Message {
	m := dynamicpb.NewMessage(of)
	if field := of.Fields().ByName("namespace"); field != nil {
		m.Set(field, protoreflect.ValueOfString(namespace))
	}
	if field := of.Fields().ByName("tenant"); field != nil {
		m.Set(field, protoreflect.ValueOfString(tenantIn(namespace)))
	}
	return m
}

// call makes a call with one message, streaming or not, and gives up after the first
// answer.
func (r *operationsRig) call(m protoreflect.MethodDescriptor, path, token string, request proto.Message) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(r.t.Context(), "a2a-version", "1.0"))
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	response := dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingServer() && !m.IsStreamingClient() {
		return r.conn.Invoke(ctx, path, request, response)
	}
	stream, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err != nil {
		return err
	}
	// After EOF the stream is over, and RecvMsg returns the reason.
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		err := stream.RecvMsg(response)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// Work sends a message before it reads. All other methods have answered here.
		if m.Name() != "Work" {
			return nil
		}
	}
}

func reasonOfError(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

func (r *operationsRig) overGateway() []probe {
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(gen.OpenAPI, &doc); err != nil {
		r.t.Fatal(err)
	}
	var all []probe
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for verb, op := range doc.Paths[path] {
			if !strings.Contains(op.OperationID, "_") {
				continue // the gateway's own: see overWeb
			}
			name := "/pawl.v1." + strings.Replace(op.OperationID, "_", "/", 1)
			if _, ok := r.table[name]; !ok {
				name = strings.TrimRight(name, "0123456789") // an additional path of the same method
			}
			url := "http://" + r.s.ready.HTTP + pathParameter.ReplaceAllString(path, "7")
			row := r.row(name)
			all = append(all, probe{op: row, transport: strings.ToUpper(verb) + " " + path, names: row.Space == policy.SpaceNamed, ask: func(token, namespace string) string {
				if row.Space == policy.SpaceAll {
					return r.http(verb, url, "", token)
				}
				if verb == "get" || verb == "delete" {
					return r.http(verb, url+"?namespace="+namespace, "", token)
				}
				return r.http(verb, url, fmt.Sprintf(`{"namespace":%q}`, namespace), token)
			}})
		}
	}
	return all
}

var reasonInBody = regexp.MustCompile(`"reason":\s*"([A-Z_]+)"`)

// http makes a request and returns the reason of its error.
func (r *operationsRig) http(verb, where, body, token string) string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(verb), where, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2a-Version", "1.0")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return ""
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if found := reasonInBody.FindSubmatch(raw); found != nil && bytes.Contains(raw, []byte("ErrorInfo")) {
		return string(found[1])
	}
	return ""
}

// agentPaths are the methods of A2A over HTTP+JSON.
var agentPaths = map[string]string{
	"SendMessage": "POST /message:send", "SendStreamingMessage": "POST /message:stream",
	"GetTask": "GET /tasks/7", "ListTasks": "GET /tasks", "CancelTask": "POST /tasks/7:cancel",
	"SubscribeToTask":                  "GET /tasks/7:subscribe",
	"CreateTaskPushNotificationConfig": "POST /tasks/7/pushNotificationConfigs", "GetTaskPushNotificationConfig": "GET /tasks/7/pushNotificationConfigs/8",
	"ListTaskPushNotificationConfigs": "GET /tasks/7/pushNotificationConfigs", "DeleteTaskPushNotificationConfig": "DELETE /tasks/7/pushNotificationConfigs/8",
	"GetExtendedAgentCard": "GET /extendedAgentCard",
}

// overA2A has the bindings of A2A besides gRPC, which is one of the services.
func (r *operationsRig) overA2A() []probe {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName("lf.a2a.v1.A2AService")
	if err != nil {
		r.t.Fatal(err)
	}
	methods := found.(protoreflect.ServiceDescriptor).Methods()
	agents := "http://" + r.s.ready.HTTP + "/a2a/"
	root := "http://" + r.s.ready.HTTP + "/"
	var all []probe
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		op := r.row("/lf.a2a.v1.A2AService/" + name)
		verb, path, ok := strings.Cut(agentPaths[name], " ")
		if !ok {
			r.t.Errorf("no path is known for %s over HTTP+JSON", name)
		}
		all = append(all,
			probe{op: op, transport: "JSON-RPC", names: true, ask: func(token, namespace string) string {
				return r.http("post", agents+tenantIn(namespace), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{}}`, name), token)
			}},
			probe{op: op, transport: "JSON-RPC with a tenant", names: true, ask: func(token, namespace string) string {
				return r.http("post", root, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"tenant":%q}}`, name, tenantIn(namespace)), token)
			}},
			probe{op: op, transport: "HTTP+JSON " + path, names: true, ask: func(token, namespace string) string {
				return r.http(verb, agents+tenantIn(namespace)+path, map[bool]string{true: "{}"}[verb == "POST"], token)
			}})
	}
	return all
}

// overWeb has the paths that are no method: the page, probes, cards and the metrics.
func (r *operationsRig) overWeb() []probe {
	var all []probe
	for _, op := range policy.Operations {
		verb, path, ok := strings.Cut(op.Name, " ")
		if !ok {
			continue
		}
		where := "http://" + r.s.ready.HTTP + strings.ReplaceAll(path, "PACK/AGENT", "team/lead")
		if path == "/metrics" {
			where = "http://" + r.s.ready.Metrics + path
		}
		all = append(all, probe{op: op, transport: "HTTP", names: strings.Contains(path, "NAMESPACE"), ask: func(token, namespace string) string {
			// A path that does not use the caller's own namespace names one.
			return r.http(verb, strings.ReplaceAll(where, "NAMESPACE", cmp.Or(namespace, "red")), "", token)
		}})
	}
	return all
}
