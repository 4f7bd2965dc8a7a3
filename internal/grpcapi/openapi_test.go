package grpcapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pawl-dev/pawl/gen"
)

// openAPI is what the tests read of the document.
type openAPI struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		RequestBody struct {
			Content map[string]struct {
				Schema bodySchema `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]bodySchema `json:"schemas"`
	} `json:"components"`
}

type bodySchema struct {
	Ref      string   `json:"$ref"`
	Required []string `json:"required"`
}

// TestOpenAPIRequiresWhatTheServerDoes: an empty request is refused for exactly the
// fields that the document calls required, but for those of the path.
func TestOpenAPIRequiresWhatTheServerDoes(t *testing.T) {
	t.Parallel()
	var doc openAPI
	if err := json.Unmarshal(gen.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, item := range doc.Paths {
		for _, operation := range item {
			body, ok := operation.RequestBody.Content["application/json"]
			if !ok {
				continue
			}
			required := body.Schema.Required
			if name := strings.TrimPrefix(body.Schema.Ref, "#/components/schemas/"); name != "" {
				required = doc.Components.Schemas[name].Required
			}
			want := refusedWhenEmpty(t, operation.OperationID, path)
			if !slices.Equal(required, want) {
				t.Errorf("%s requires %v, the server %v", operation.OperationID, required, want)
			}
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("only %d bodies were found", checked)
	}
}

// refusedWhenEmpty lists the JSON names, sorted, that the constraints of an operation's
// request refuse to be empty and that are not in its path.
func refusedWhenEmpty(t *testing.T, operation, path string) []string {
	t.Helper()
	service, method, _ := strings.Cut(operation, "_")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("pawl.v1." + service + "." + method))
	if err != nil {
		t.Fatal(err)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(found.(protoreflect.MethodDescriptor).Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	var violations *protovalidate.ValidationError
	violations, _ = protovalidate.Validate(kind.New().Interface()).(*protovalidate.ValidationError)
	var out []string
	if violations != nil {
		for _, v := range violations.Violations {
			field := v.FieldDescriptor
			if field != nil && !strings.Contains(path, "{"+field.TextName()+"}") && !slices.Contains(out, field.JSONName()) {
				out = append(out, field.JSONName())
			}
		}
	}
	slices.Sort(out)
	return out
}
