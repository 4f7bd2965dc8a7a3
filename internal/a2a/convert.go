package a2a

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// inboundParts converts the parts of a caller's message to the engine's form.
func inboundParts(parts []*a2apb.Part) ([]machine.Part, error) {
	out, err := protocol.PartsFromProto("message.parts", parts)
	if fault, ok := errors.AsType[*protocol.PartError](err); ok {
		return nil, failAt(invalidParams, fault.At, "%s", fault.Msg)
	}
	return out, err
}

// envelopeFromProto converts the id, the context, the references, the extensions and the metadata of a message to the
// engine's form. If the message and the request have the same metadata, the metadata of the message are used.
func envelopeFromProto(m *a2apb.Message, request *structpb.Struct) *machine.Envelope {
	return &machine.Envelope{
		MessageID: m.GetMessageId(), ContextID: m.GetContextId(), References: m.GetReferenceTaskIds(),
		Extensions: m.GetExtensions(), Metadata: protocol.ObjectFromProto(mergeStructs(request, m.GetMetadata())),
	}
}

// mergeStructs merges two objects. If both have a member, the member of above is used.
func mergeStructs(below, above *structpb.Struct) *structpb.Struct {
	if len(below.GetFields()) == 0 {
		return above
	}
	out := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for _, s := range []*structpb.Struct{below, above} {
		maps.Copy(out.Fields, s.GetFields())
	}
	return out
}

// artifactPart converts the value of a workflow artifact to a part.
func artifactPart(mediaType string, value []byte) *a2apb.Part {
	switch {
	case isJSON(mediaType):
		return protocol.PartToProto(&machine.Part{Kind: machine.PartJSON, Data: value, MediaType: mediaType})
	case strings.HasPrefix(mediaType, "text/"):
		return &a2apb.Part{Content: &a2apb.Part_Text{Text: strings.ToValidUTF8(string(value), "\uFFFD")}, MediaType: mediaType}
	}
	return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: bytes.Clone(value)}, MediaType: mediaType}
}

func isJSON(mediaType string) bool {
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

func textPart(text string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Text{Text: strings.ToValidUTF8(text, "\uFFFD")}}
}

// stampToProto converts a time. It cuts the time to milliseconds (A2A specification §5.6.1).
func stampToProto(nanos int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, nanos).Truncate(time.Millisecond))
}
