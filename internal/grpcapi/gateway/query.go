package gateway

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	gw "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// strictQuery refuses query parameters that are not fields of the request. The library ignores such
// parameters, but a filter with a typing mistake must not select all items.
type strictQuery struct{ gw.DefaultQueryParser }

// Parse implements the library's QueryParameterParser.
func (q *strictQuery) Parse(msg proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		// An entry of a map is written as labels[key]=value.
		path, _, _ := strings.Cut(key, "[")
		field, err := checkPath(msg.ProtoReflect().Descriptor(), key, strings.Split(path, "."))
		if err != nil {
			return err
		}
		if field.Kind() == protoreflect.EnumKind {
			for i, name := range values[key] {
				values[key][i] = fullEnum(field.Enum(), name)
			}
		}
	}
	return q.DefaultQueryParser.Parse(msg, values, filter)
}

// checkPath returns the field at the end of a path of field names.
func checkPath(m protoreflect.MessageDescriptor, key string, path []string) (field protoreflect.FieldDescriptor, err error) {
	for _, name := range path {
		if m == nil {
			return nil, fmt.Errorf("query parameter %q: %q is in no message", key, name)
		}
		field = m.Fields().ByTextName(name)
		if field == nil {
			field = m.Fields().ByJSONName(name)
		}
		if field == nil {
			return nil, fmt.Errorf("query parameter %q: %s has no field %q; allowed: %s", key, m.Name(), name, jsonNames(m))
		}
		m = field.Message()
	}
	return field, nil
}

func jsonNames(m protoreflect.MessageDescriptor) string {
	var names []string
	for i := range m.Fields().Len() {
		names = append(names, m.Fields().Get(i).JSONName())
	}
	return strings.Join(names, ", ")
}

// useStrictQuery installs the parser for the whole process, because the library has only one parser.
var useStrictQuery = sync.OnceFunc(func() { gw.NewServeMux(gw.SetQueryParameterParser(&strictQuery{})) })
