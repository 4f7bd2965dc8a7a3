package inprocess

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
)

// Decoded is the answer of a method as its message. Calls that were answered elsewhere are
// answered in the bytes that came from there, which most of them only pass on.
func Decoded(method string, answer any) (any, error) {
	raw, ok := answer.(encoded.Message)
	if !ok {
		return answer, nil
	}
	out, err := answerOf(method)
	if err == nil {
		err = proto.Unmarshal(raw, out)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer of %s that came from elsewhere: %w", method, err)
	}
	return out, nil
}

// answerOf is an empty answer of a method, by its descriptor.
func answerOf(method string) (proto.Message, error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, err
	}
	desc, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no method", name)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(desc.Output().FullName())
	if err != nil {
		return nil, err
	}
	return kind.New().Interface(), nil
}
