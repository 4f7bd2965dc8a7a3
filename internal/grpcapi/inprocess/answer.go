package inprocess

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
)

// Decoded returns the answer of a method as a message. The answer of another node consists of encoded
// bytes. Most callers forward these bytes without decoding them.
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

// answerOf returns an empty response of a method.
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
