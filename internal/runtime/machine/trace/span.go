package trace

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// Kind is the kind of a span. The numbers are those of OTLP.
type Kind int32

const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Attr is one attribute of a span. Value is a string, an int64 or a []string.
type Attr struct {
	Key   string
	Value any
}

// Link refers to a span of another trace, or of another branch of the same trace.
type Link struct {
	Trace TraceID
	Span  SpanID
	Attrs []Attr
}

// Span is a span. It is finished when End is set.
type Span struct {
	Trace  TraceID
	ID     SpanID
	Parent SpanID
	Name   string
	Kind   Kind
	// Start and End are in Unix nanoseconds.
	Start, End int64
	Attrs      []Attr
	Links      []Link
	// Error is an error code and never a free text. It is "" if there was no error.
	Error string
}

func (s *Span) text(key, value string) {
	if value != "" {
		s.Attrs = append(s.Attrs, Attr{key, value})
	}
}

// texts adds an attribute whose value is a list with one text, because the conventions require a list
// for some attributes. If value is "", it adds nothing.
func (s *Span) texts(key, value string) {
	if value != "" {
		s.Attrs = append(s.Attrs, Attr{key, []string{value}})
	}
}

// addUsage adds the token usage of models as attributes. Their names follow the OpenTelemetry
// conventions for GenAI.
func (s *Span) addUsage(u *machine.Usage) {
	s.number("gen_ai.usage.input_tokens", u.InputTokens)
	s.number("gen_ai.usage.output_tokens", u.OutputTokens)
	if u.CachedTokens > 0 {
		s.number("gen_ai.usage.cache_read.input_tokens", u.CachedTokens)
	}
	if u.ReasoningTokens > 0 {
		s.number("gen_ai.usage.reasoning.output_tokens", u.ReasoningTokens)
	}
	if u.CostMicro > 0 {
		s.number("pawl.usage.cost_micro_usd", u.CostMicro)
	}
	if u.Estimated {
		s.text("pawl.usage.estimated", "true")
	}
}

func (s *Span) number(key string, value int64) {
	s.Attrs = append(s.Attrs, Attr{key, value})
}

// maxErrorBytes bounds the length of an error code that a caller chose, in bytes.
const maxErrorBytes = 64

// fail marks the span as failed. If code does not look like an error code, fail adds "_OTHER" in its
// place, because it may contain any data.
func (s *Span) fail(code string) {
	s.Error = word(code)
	s.text("error.type", s.Error)
}

func word(code string) string {
	if len(code) == 0 || len(code) > maxErrorBytes {
		return "_OTHER"
	}
	for _, r := range code {
		if r != '_' && r != '.' && r != '-' && r != ':' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return "_OTHER"
		}
	}
	return code
}
