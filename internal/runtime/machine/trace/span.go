package trace

// Kind of a span, numbered as OTLP does.
type Kind int32

const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Attr is one attribute; Value is a string or an int64.
type Attr struct {
	Key   string
	Value any
}

// Link is a span of another trace, or of another branch of this one.
type Link struct {
	Trace TraceID
	Span  SpanID
	Attrs []Attr
}

// Span is one that has ended.
type Span struct {
	Trace  TraceID
	ID     SpanID
	Parent SpanID
	Name   string
	Kind   Kind
	// Start and End are Unix nanoseconds.
	Start, End int64
	Attrs      []Attr
	Links      []Link
	// Error is a code, never a text that somebody wrote; "" = none.
	Error string
}

func (s *Span) text(key, value string) {
	if value != "" {
		s.Attrs = append(s.Attrs, Attr{key, value})
	}
}

func (s *Span) number(key string, value int64) {
	s.Attrs = append(s.Attrs, Attr{key, value})
}

// maxErrorBytes bounds a code that a caller chose.
const maxErrorBytes = 64

// fail marks the span. What is no word of a code may hold anything and is not told.
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
