package grpcapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-dev/pawl/gen"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/gateway"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/docpage"
)

var (
	rpcComment  = regexp.MustCompile(`((?:  //[^\n]*\n)+)  rpc (\w+)\(`)
	scopePhrase = regexp.MustCompile(`(?:^|[.)] )(Scope [^.;]*|Any principal)[.;]`)
	scopeName   = regexp.MustCompile(`[a-z]+:[a-z]+|\bwork\b|\badmin\b`)
)

// promisedScopes reads off the comments of the contract which scopes admit to each
// RPC besides admin; 0 = every known caller.
func promisedScopes(t *testing.T) map[string]runtime.Scopes {
	t.Helper()
	promises := map[string]runtime.Scopes{}
	for file, service := range map[string]string{
		"pack": "PackService", "run": "RunService", "worker": "WorkerService", "delivery": "DeliveryService", "store": "StoreService", "control": "ControlService",
	} {
		source, err := os.ReadFile("../../proto/pawl/v1/" + file + ".proto")
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range rpcComment.FindAllStringSubmatch(string(source), -1) {
			comment := strings.Join(strings.Fields(strings.ReplaceAll(found[1], "//", " ")), " ")
			phrases := scopePhrase.FindAllStringSubmatch(comment, -1)
			if len(phrases) != 1 {
				t.Errorf("the comment of %s has %d phrases on scopes, want one: %s", found[2], len(phrases), comment)
				continue
			}
			var scopes runtime.Scopes
			for _, name := range scopeName.FindAllString(phrases[0][1], -1) {
				one, err := auth.ParseScopes(name)
				if err != nil {
					t.Errorf("%s: %v", found[2], err)
				}
				scopes |= one
			}
			promises["/pawl.v1."+service+"/"+found[2]] = scopes &^ runtime.ScopeAdmin
		}
	}
	return promises
}

// TestOperationsAreTheContracts: the table says of each RPC what its comment does.
func TestOperationsAreTheContracts(t *testing.T) {
	t.Parallel()
	promises, table := promisedScopes(t), operations()
	eachMethod(func(_ protoreflect.MethodDescriptor, path string) {
		promise, ok := promises[path]
		if got := table[path]; !ok || got.Public || got.Scopes != promise {
			t.Errorf("%s takes %q, its comment says %q (%v)", path, got.Scopes, promise, ok)
		}
	})
}

// TestEveryOperationHasARow: a server with a method that the table lacks is not built,
// and the table has no row for what is not served.
func TestEveryOperationHasARow(t *testing.T) {
	t.Parallel()
	guest := func(desc *grpc.ServiceDesc, impl any) func(*Config, *services.Config) {
		return func(c *Config, _ *services.Config) {
			c.Channelz = true
			c.Plugin = func(*Server) (Plugin, error) { return Plugin{Desc: desc, Impl: impl}, nil }
		}
	}
	r := newRig(t, guest(&a2apb.A2AService_ServiceDesc, a2apb.UnimplementedA2AServiceServer{}))
	served := map[string]bool{metricsMethod: true}
	for name := range operations() {
		// Over HTTP alone: internal/server asks for each.
		if strings.HasPrefix(name, "GET /") {
			served[name] = true
		}
	}
	for service, info := range r.server.grpc.GetServiceInfo() {
		for _, method := range info.Methods {
			served["/"+service+"/"+method.Name] = true
		}
	}
	for name := range operations() {
		if !served[name] {
			t.Errorf("the table has %s, which nobody serves", name)
		}
	}
	for name := range served {
		if operations()[name].Name == "" {
			t.Errorf("%s has no row", name)
		}
	}
	stray := &grpc.ServiceDesc{
		ServiceName: "stray.Service", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			return nil, nil
		}}},
	}
	conf := Config{Runtime: r.engine}
	guest(stray, struct{}{})(&conf, nil)
	if s, err := New(conf); err == nil || !strings.Contains(err.Error(), "/stray.Service/Do has no scopes") {
		if err == nil {
			_ = s.release()
		}
		t.Errorf("a method without a row is served: %v", err)
	}
}

// TestScopesPage holds the table in docs/reference/scopes.md against the one in code.
func TestScopesPage(t *testing.T) {
	t.Parallel()
	docpage.Check(t, "../../docs/reference/scopes.md", "operations", "| operation | one of these scopes |\n|---|---|\n"+scopesTable())
}

// scopesTable has the operations of the contract, of A2A and the metrics.
func scopesTable() string {
	var b strings.Builder
	for _, op := range runtime.Operations() {
		name := op.Name
		if strings.HasPrefix(name, "/grpc.") {
			continue
		}
		if service, method, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/"); ok && strings.HasPrefix(name, "/") {
			name = method
			if !strings.HasPrefix(service, "pawl.") {
				name = "A2A " + method
			}
		}
		scopes := "`" + strings.ReplaceAll(op.Scopes.String(), " ", "`, `") + "`"
		switch {
		case op.Public:
			scopes = "every caller"
		case op.Scopes == 0:
			scopes = "every known caller"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, scopes)
	}
	return b.String()
}

// callLog is a connection that notes what is called.
type callLog struct{ method string }

func (c *callLog) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	c.method = method
	return status.Error(codes.Unimplemented, "noted")
}

func (c *callLog) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	c.method = method
	return nil, status.Error(codes.Unimplemented, "noted")
}

// TestEveryRouteReachesItsOwnMethod: no path of the gateway is taken by another one.
func TestEveryRouteReachesItsOwnMethod(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(gen.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	var log callLog
	routes, err := gateway.NewRoutes(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	count := 0
	for path, methods := range doc.Paths {
		for verb, op := range methods {
			if !strings.Contains(op.OperationID, "_") {
				// Not a method of the contract: the gateway's own.
				continue
			}
			log.method = ""
			req := httptest.NewRequestWithContext(t.Context(), strings.ToUpper(verb), parameter.ReplaceAllString(path, "7"), strings.NewReader("{}"))
			answer := httptest.NewRecorder()
			routes.ServeHTTP(answer, req)
			want := "/pawl.v1." + strings.Replace(op.OperationID, "_", "/", 1)
			if log.method != strings.TrimRight(want, "0123456789") && log.method != want {
				body, _ := io.ReadAll(answer.Body)
				t.Errorf("%s %s reaches %q, want %s: %d %s", verb, path, log.method, want, answer.Code, body)
			}
			count++
		}
	}
	if count < 30 {
		t.Fatalf("%d routes", count)
	}
}
