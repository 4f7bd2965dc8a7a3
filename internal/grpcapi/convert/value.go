package convert

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// TimeToProto converts Unix nanoseconds. 0 means that the time is not set.
func TimeToProto(nanos int64) *timestamppb.Timestamp {
	if nanos == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, nanos))
}

// compactJSON checks a JSON text and makes it compact. It returns nil for an empty text.
func compactJSON(field, text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	out, err := strictjson.Compact([]byte(text))
	if err != nil {
		return nil, invalidJSON(field, err.Error())
	}
	return out, nil
}

// compactObject does the same as compactJSON, and also requires that the value is a JSON object.
func compactObject(field, text string) ([]byte, error) {
	out, err := compactJSON(field, text)
	if err == nil && len(out) > 0 && out[0] != '{' {
		return nil, invalidJSON(field, "want a JSON object")
	}
	return out, err
}

func invalidJSON(field, why string) error {
	return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "INVALID_JSON", Field: field, Message: "no valid JSON: " + why}
}

// writesFromProto converts artifacts to the stored form. It does not check them: the engine does so after it has
// checked the run.
func writesFromProto(in []*pawlv1.ArtifactWrite) []machine.ArtifactWrite {
	if len(in) == 0 {
		return nil
	}
	out := make([]machine.ArtifactWrite, len(in))
	for i, w := range in {
		out[i] = writeFromProto(w)
	}
	return out
}

// writeFromProto converts a write of an artifact.
func writeFromProto(w *pawlv1.ArtifactWrite) machine.ArtifactWrite {
	out := machine.ArtifactWrite{Name: w.GetName(), Type: w.GetValue().GetMediaType()}
	switch v := w.GetValue().GetValue().(type) {
	case *pawlv1.ArtifactValue_Json:
		out.Form, out.Value = machine.FormJSON, []byte(v.Json)
		// Invalid JSON stays unchanged, because the engine checks it later.
		if compact, err := compactJSON("", v.Json); err == nil {
			out.Value = compact
		}
	case *pawlv1.ArtifactValue_Text:
		out.Form, out.Value = machine.FormText, []byte(v.Text)
	case *pawlv1.ArtifactValue_Data:
		out.Form, out.Value = machine.FormBytes, v.Data
	}
	return out
}

func valueToProto(mediaType string, value []byte) *pawlv1.ArtifactValue {
	out := &pawlv1.ArtifactValue{MediaType: mediaType}
	switch machine.FormOf(mediaType) {
	case machine.FormJSON:
		out.Value = &pawlv1.ArtifactValue_Json{Json: string(value)}
	case machine.FormText:
		out.Value = &pawlv1.ArtifactValue_Text{Text: string(value)}
	default:
		out.Value = &pawlv1.ArtifactValue_Data{Data: value}
	}
	return out
}

// MediaTypes returns the declared media type of an artifact of one run.
type MediaTypes func(artifact string) string

func (types MediaTypes) writesToProto(in []machine.ArtifactWrite) []*pawlv1.ArtifactWrite {
	if len(in) == 0 {
		return nil
	}
	out := make([]*pawlv1.ArtifactWrite, len(in))
	for i, w := range in {
		out[i] = &pawlv1.ArtifactWrite{Name: w.Name, Value: valueToProto(types(w.Name), w.Value)}
	}
	return out
}

func partsFromProto(field string, in []*pawlv1.Part) ([]machine.Part, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]machine.Part, len(in))
	for i, p := range in {
		part, err := partFromProto(fmt.Sprintf("%s[%d]", field, i), p)
		if err != nil {
			return nil, err
		}
		out[i] = part
	}
	return out, nil
}

// partFromProto converts one part of a message. field is the path of the part in the request, for errors.
func partFromProto(field string, p *pawlv1.Part) (out machine.Part, err error) {
	out = machine.Part{MediaType: p.GetMediaType(), Filename: p.GetFilename()}
	if out.Metadata, err = compactObject(field+".metadata_json", p.GetMetadataJson()); err != nil {
		return out, err
	}
	switch c := p.GetContent().(type) {
	case *pawlv1.Part_Text:
		out.Kind, out.Text = machine.PartText, c.Text
	case *pawlv1.Part_Json:
		out.Kind = machine.PartJSON
		if c.Json == "" {
			return out, invalidJSON(field+".json", "it is empty")
		}
		out.Data, err = compactJSON(field+".json", c.Json)
	case *pawlv1.Part_Data:
		out.Kind, out.Data = machine.PartData, c.Data
	case *pawlv1.Part_Uri:
		out.Kind, out.Text = machine.PartURI, c.Uri
	}
	return out, err
}

func partsToProto(in []machine.Part) []*pawlv1.Part {
	if len(in) == 0 {
		return nil
	}
	out := make([]*pawlv1.Part, len(in))
	for i := range in {
		out[i] = partToProto(&in[i])
	}
	return out
}

func partToProto(p *machine.Part) *pawlv1.Part {
	out := &pawlv1.Part{MediaType: p.MediaType, Filename: p.Filename, MetadataJson: string(p.Metadata)}
	switch p.Kind {
	case machine.PartJSON:
		out.Content = &pawlv1.Part_Json{Json: string(p.Data)}
	case machine.PartData:
		out.Content = &pawlv1.Part_Data{Data: p.Data}
	case machine.PartURI:
		out.Content = &pawlv1.Part_Uri{Uri: p.Text}
	default:
		out.Content = &pawlv1.Part_Text{Text: p.Text}
	}
	return out
}

// messagesFromProto converts messages of a conversation. field is the path of the list in the request, for errors.
func messagesFromProto(field string, in []*pawlv1.Message) ([]machine.Message, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]machine.Message, len(in))
	for i, m := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		parts, err := partsFromProto(at+".parts", m.GetParts())
		if err != nil {
			return nil, err
		}
		calls, err := compactJSON(at+".tool_calls_json", m.GetToolCallsJson())
		if err != nil {
			return nil, err
		}
		provider, err := compactJSON(at+".provider_json", m.GetProviderJson())
		if err != nil {
			return nil, err
		}
		out[i] = machine.Message{
			Role: m.GetRole(), Parts: parts, ToolCalls: calls, ToolCallID: m.GetToolCallId(), Provider: provider, Refusal: m.GetRefusal(),
		}
	}
	return out, nil
}

func messagesToProto(in []machine.Message) []*pawlv1.Message {
	if len(in) == 0 {
		return nil
	}
	out := make([]*pawlv1.Message, len(in))
	for i := range in {
		out[i] = &pawlv1.Message{
			Role: in[i].Role, Parts: partsToProto(in[i].Parts),
			ToolCallsJson: string(in[i].ToolCalls), ToolCallId: in[i].ToolCallID,
			ProviderJson: string(in[i].Provider), Refusal: in[i].Refusal, Envelope: envelopeToProto(in[i].Envelope),
		}
	}
	return out
}

func usageFromProto(u *pawlv1.Usage) machine.Usage {
	return machine.Usage{
		InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(),
		CostMicro: u.GetCostMicroUsd(), ToolCalls: int(u.GetToolCalls()),
		CachedTokens: u.GetCachedTokens(), ReasoningTokens: u.GetReasoningTokens(), Model: u.GetModel(),
		Estimated: u.GetEstimated(), CountedBefore: u.GetCountedBefore(),
	}
}

func usageToProto(u machine.Usage) *pawlv1.Usage {
	if u == (machine.Usage{}) {
		return nil
	}
	return &pawlv1.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CostMicroUsd: u.CostMicro, ToolCalls: int32(u.ToolCalls),
		CachedTokens: u.CachedTokens, ReasoningTokens: u.ReasoningTokens, Model: u.Model,
		Estimated: u.Estimated, CountedBefore: u.CountedBefore,
	}
}

func faultFromProto(f *pawlv1.Fault) machine.Fault {
	return machine.Fault{Code: f.GetCode(), Message: f.GetMessage(), Trace: f.GetTrace()}
}

func faultToProto(f machine.Fault) *pawlv1.Fault {
	if f == (machine.Fault{}) {
		return nil
	}
	return &pawlv1.Fault{Code: f.Code, Message: f.Message, Trace: f.Trace}
}

func denialToProto(d *machine.Denial) *pawlv1.Denial {
	if d == nil {
		return nil
	}
	return &pawlv1.Denial{Code: d.Code, Message: d.Message}
}

// timeFromProto converts a time to Unix nanoseconds. It returns 0 for a time that is not set.
func timeFromProto(at *timestamppb.Timestamp) int64 {
	if at == nil {
		return 0
	}
	return at.AsTime().UnixNano()
}
