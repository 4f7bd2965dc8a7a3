package archtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestBaselineKnowsEveryRPC: `buf breaking` guards what proto/baseline.binpb has and nothing else, so
// the baseline has every service and RPC of the contract. A new field may wait for the next release.
func TestBaselineKnowsEveryRPC(t *testing.T) {
	t.Parallel()
	known := baselineRoutes(t)
	for _, service := range services() {
		for i := range service.Methods().Len() {
			rpc := service.Methods().Get(i).FullName()
			if _, ok := known[rpc]; !ok {
				t.Errorf("proto/baseline.binpb does not have %s: run `make baseline` and commit it with the RPC", rpc)
			}
		}
	}
}

// TestBaselineRoutesAreKept: `buf breaking` does not see options, so this test sees that each HTTP
// route of the baseline is still one of the same RPC.
func TestBaselineRoutesAreKept(t *testing.T) {
	t.Parallel()
	now := map[protoreflect.FullName][]string{}
	for _, service := range services() {
		for i := range service.Methods().Len() {
			rpc := service.Methods().Get(i)
			now[rpc.FullName()] = routesOf(rpc.Options())
		}
	}
	count := 0
	for rpc, routes := range baselineRoutes(t) {
		for _, route := range routes {
			count++
			if !slices.Contains(now[rpc], route) {
				t.Errorf("%s no longer has the HTTP route %q of proto/baseline.binpb", rpc, route)
			}
		}
	}
	if count < 20 {
		t.Fatalf("only %d routes in the baseline", count)
	}
}

// baselineRoutes maps each RPC of the baseline to its HTTP routes.
func baselineRoutes(t *testing.T) map[protoreflect.FullName][]string {
	t.Helper()
	raw, err := os.ReadFile("../../proto/baseline.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var image descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &image); err != nil {
		t.Fatal(err)
	}
	rpcs := map[protoreflect.FullName][]string{}
	for _, file := range image.GetFile() {
		if !strings.HasPrefix(file.GetPackage(), "pawl.") {
			continue
		}
		for _, service := range file.GetService() {
			for _, rpc := range service.GetMethod() {
				name := file.GetPackage() + "." + service.GetName() + "." + rpc.GetName()
				rpcs[protoreflect.FullName(name)] = routesOf(rpc.GetOptions())
			}
		}
	}
	return rpcs
}

// routesOf writes the HTTP routes of an RPC as text.
func routesOf(options proto.Message) []string {
	rule, _ := proto.GetExtension(options, annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return nil
	}
	var routes []string
	for _, route := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		for method, path := range map[string]string{
			"GET": route.GetGet(), "POST": route.GetPost(), "PUT": route.GetPut(), "DELETE": route.GetDelete(), "PATCH": route.GetPatch(),
		} {
			if path != "" {
				routes = append(routes, method+" "+path+" body="+route.GetBody())
			}
		}
	}
	return routes
}
