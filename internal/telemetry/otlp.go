package telemetry

import (
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/pawl-dev/pawl/internal/build"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// scope is the name of the instrumentation scope of the spans.
const scope = "github.com/pawl-dev/pawl"

func resourceSpans(spans []trace.Span) []*tracepb.ResourceSpans {
	out := make([]*tracepb.Span, len(spans))
	for i := range spans {
		out[i] = spanToOTLP(&spans[i])
	}
	return []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: attributes([]trace.Attr{{Key: "service.name", Value: "pawl"}, {Key: "service.version", Value: build.Version()}})},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: scope, Version: build.Version()}, Spans: out,
		}},
	}}
}

// spanToOTLP converts a span to its OTLP form.
func spanToOTLP(s *trace.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId: s.Trace[:], SpanId: s.ID[:], Name: s.Name, Kind: tracepb.Span_SpanKind(s.Kind),
		StartTimeUnixNano: uint64(s.Start), EndTimeUnixNano: uint64(s.End),
		Attributes: attributes(s.Attrs), Flags: 1,
	}
	if s.Parent != (trace.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	for i := range s.Links {
		l := &s.Links[i]
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: l.Trace[:], SpanId: l.Span[:], Attributes: attributes(l.Attrs)})
	}
	if s.Error != "" {
		out.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: s.Error}
	}
	return out
}

func list(texts []string) *commonpb.ArrayValue {
	out := &commonpb.ArrayValue{}
	for _, text := range texts {
		out.Values = append(out.Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: text}})
	}
	return out
}

// attributes converts the attributes of a span to their OTLP form.
func attributes(attrs []trace.Attr) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		kv := &commonpb.KeyValue{Key: a.Key, Value: &commonpb.AnyValue{}}
		switch v := a.Value.(type) {
		case string:
			kv.Value.Value = &commonpb.AnyValue_StringValue{StringValue: v}
		case int64:
			kv.Value.Value = &commonpb.AnyValue_IntValue{IntValue: v}
		case []string:
			kv.Value.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: list(v)}
		}
		out = append(out, kv)
	}
	return out
}
