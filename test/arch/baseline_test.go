package arch

import (
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
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

// TestBaselineIsNotOld: of the fields and values of enums, which a change may add without renewing the baseline, it
// has nearly all. Nothing guards the others.
func TestBaselineIsNotOld(t *testing.T) {
	t.Parallel()
	known, all := map[string]bool{}, map[string]bool{}
	for _, file := range baselineFiles(t) {
		partsOf(file, known)
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("pawl.v1", func(file protoreflect.FileDescriptor) bool {
		partsOf(protodesc.ToFileDescriptorProto(file), all)
		return true
	})
	var missing []string
	for part := range all {
		if !known[part] {
			missing = append(missing, part)
		}
	}
	slices.Sort(missing)
	if most := len(all) / 20; len(missing) > most || len(all) < 1000 {
		t.Errorf("proto/baseline.binpb does not have %d of %d fields and values, at most %d: run `make baseline`\n%s", len(missing), len(all), most, strings.Join(missing, "\n"))
	}
}

// partsOf adds the names of fields and values of enums.
func partsOf(file *descriptorpb.FileDescriptorProto, into map[string]bool) {
	values := func(of string, enums []*descriptorpb.EnumDescriptorProto) {
		for _, e := range enums {
			for _, v := range e.GetValue() {
				into[of+e.GetName()+"."+v.GetName()] = true
			}
		}
	}
	var messages func(of string, all []*descriptorpb.DescriptorProto)
	messages = func(of string, all []*descriptorpb.DescriptorProto) {
		for _, m := range all {
			name := of + m.GetName() + "."
			for _, f := range m.GetField() {
				into[name+f.GetName()] = true
			}
			values(name, m.GetEnumType())
			messages(name, m.GetNestedType())
		}
	}
	values("", file.GetEnumType())
	messages("", file.GetMessageType())
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
	rpcs := map[protoreflect.FullName][]string{}
	for _, file := range baselineFiles(t) {
		for _, service := range file.GetService() {
			for _, rpc := range service.GetMethod() {
				name := file.GetPackage() + "." + service.GetName() + "." + rpc.GetName()
				rpcs[protoreflect.FullName(name)] = routesOf(rpc.GetOptions())
			}
		}
	}
	return rpcs
}

// baselineFiles are the contract's files as they were last accepted.
func baselineFiles(t *testing.T) (files []*descriptorpb.FileDescriptorProto) {
	t.Helper()
	raw, err := os.ReadFile("../../proto/baseline.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var image descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &image); err != nil {
		t.Fatal(err)
	}
	for _, file := range image.GetFile() {
		if strings.HasPrefix(file.GetPackage(), "pawl.") {
			files = append(files, file)
		}
	}
	return files
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
