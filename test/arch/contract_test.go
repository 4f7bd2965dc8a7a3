package arch

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const vendored = "../../third_party/proto"

var sumLine = regexp.MustCompile("(?m)^\\| `([^`]+\\.proto)` \\| `([0-9a-f]{64})` \\|$")

// services are the services of the wire contract, of each file of its package.
func services() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage(pawlv1.File_pawl_v1_run_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			all = append(all, file.Services().Get(i))
		}
		return true
	})
	return all
}

// protoSources are the texts of the contract's files, by their names.
func protoSources(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../proto/pawl/v1/*.proto")
	if err != nil || len(paths) == 0 {
		t.Fatalf("the contract's files: %v, error %v", paths, err)
	}
	sources := map[string]string{}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sources[filepath.Base(path)] = string(source)
	}
	return sources
}

// eachMethod runs a subtest for every RPC.
func eachMethod(t *testing.T, check func(t *testing.T, rpc protoreflect.MethodDescriptor)) {
	t.Helper()
	count := 0
	for _, service := range services() {
		for i := range service.Methods().Len() {
			rpc := service.Methods().Get(i)
			count++
			t.Run(string(rpc.Name()), func(t *testing.T) {
				t.Parallel()
				check(t, rpc)
			})
		}
	}
	if count == 0 {
		t.Fatal("the contract has no RPC")
	}
}

// ofAllNamespaces are the RPCs of all namespaces together: their requests have none.
var ofAllNamespaces = []protoreflect.FullName{
	"pawl.v1.ControlService.ListLimits",
	"pawl.v1.StoreService.Backup", "pawl.v1.StoreService.CheckStore", "pawl.v1.StoreService.GetStoreStats", "pawl.v1.StoreService.ListPartitions",
}

// TestRequestsCarryNamespace: the isolation boundary is part of every request.
func TestRequestsCarryNamespace(t *testing.T) {
	t.Parallel()
	eachMethod(t, func(t *testing.T, rpc protoreflect.MethodDescriptor) {
		if slices.Contains(ofAllNamespaces, rpc.FullName()) {
			return
		}
		field := rpc.Input().Fields().ByName("namespace")
		if field == nil || field.Number() != 1 || field.Kind() != protoreflect.StringKind {
			t.Fatalf("%s has no `string namespace = 1`", rpc.Input().Name())
		}
	})
}

// TestConstraintsCompile: every request's constraints are sound, and an invalid
// namespace is a violation of each.
func TestConstraintsCompile(t *testing.T) {
	t.Parallel()
	validator, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	eachMethod(t, func(t *testing.T, rpc protoreflect.MethodDescriptor) {
		if slices.Contains(ofAllNamespaces, rpc.FullName()) {
			return
		}
		request := dynamicpb.NewMessage(rpc.Input())
		request.Set(rpc.Input().Fields().ByName("namespace"), protoreflect.ValueOfString("No Such"))
		err := validator.Validate(request)
		var violations *protovalidate.ValidationError
		if !asViolations(err, &violations) {
			t.Fatalf("%v, want violations", err)
		}
		if !slices.ContainsFunc(violations.Violations, func(v *protovalidate.Violation) bool {
			return protovalidate.FieldPathString(v.Proto.GetField()) == "namespace"
		}) {
			t.Fatalf("%v does not name namespace", err)
		}
	})
}

func asViolations(err error, to **protovalidate.ValidationError) bool {
	found, ok := err.(*protovalidate.ValidationError)
	*to = found
	return ok
}

// grpcOnly are RPCs whose streams have no form in JSON over HTTP.
var grpcOnly = []protoreflect.Name{"Work", "PutBlob", "GetBlob", "ExportRun", "ImportRun", "Backup", "CheckStore"}

// TestEveryMethodHasHTTP: unary methods and StreamTransitions are served as JSON,
// below /v1, and no two share a route.
func TestEveryMethodHasHTTP(t *testing.T) {
	t.Parallel()
	routes := map[string]protoreflect.FullName{}
	for _, service := range services() {
		for i := range service.Methods().Len() {
			rpc := service.Methods().Get(i)
			if slices.Contains(grpcOnly, rpc.Name()) {
				continue
			}
			rule, _ := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
			for _, route := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
				key := route.GetGet() + "|" + route.GetPost()
				if !strings.Contains(key, "/v1/") {
					t.Errorf("%s has no HTTP route below /v1", rpc.FullName())
				}
				if other, taken := routes[key]; taken {
					t.Errorf("%s and %s share the route %s", rpc.FullName(), other, key)
				}
				routes[key] = rpc.FullName()
			}
		}
	}
}

// TestRecordKinds: every kind of record has its number, less 20, from 80 on less 40, as field.
func TestRecordKinds(t *testing.T) {
	t.Parallel()
	body := (&pawlv1.Record{}).ProtoReflect().Descriptor().Oneofs().ByName("body")
	values := pawlv1.RecordKind(0).Descriptor().Values()
	if body.Fields().Len() != values.Len()-1 {
		t.Fatalf("%d bodies, %d kinds", body.Fields().Len(), values.Len()-1)
	}
	for i := range body.Fields().Len() {
		field := body.Fields().Get(i)
		less := protoreflect.FieldNumber(20)
		if field.Number() >= 80 {
			less = 40 // those from 60 on were taken
		}
		value := values.ByNumber(protoreflect.EnumNumber(field.Number() - less))
		want := "RECORD_KIND_" + strings.ToUpper(string(field.Name()))
		if value == nil || string(value.Name()) != want {
			t.Errorf("field %s = %d has no kind %s of that number, less %d", field.Name(), field.Number(), want, less)
		}
	}
}

// TestVendoredFiles: the vendored protos are unchanged copies, none is missing
// from the list and none is listed in vain.
func TestVendoredFiles(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(vendored, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range sumLine.FindAllStringSubmatch(string(readme), -1) {
		listed[m[1]] = m[2]
	}
	files := 0
	err = filepath.WalkDir(vendored, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		name, err := filepath.Rel(vendored, path)
		sum := sha256.Sum256(content)
		if got := hex.EncodeToString(sum[:]); listed[filepath.ToSlash(name)] != got {
			t.Errorf("%s has SHA-256 %s, README.md says %q", name, got, listed[filepath.ToSlash(name)])
		}
		return err
	})
	if err != nil || files == 0 || files != len(listed) {
		t.Fatalf("%d files, %d listed, error %v", files, len(listed), err)
	}
}
