package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Label is the key of the run label that contains the W3C trace context of a run. If the caller sent a trace
// context at the start, the label contains it. Otherwise it contains the context of the run's own trace. A run
// without the label has no trace.
const Label = "traceparent"

// TraceID is the trace id of W3C trace context. The zero value means that there is none.
type TraceID [16]byte

// SpanID is the span id of W3C trace context. The zero value means that there is none.
type SpanID [8]byte

// Context is W3C trace context, level 1.
type Context struct {
	Trace   TraceID
	Span    SpanID
	Sampled bool
}

// version is the version of the traceparent header that this package writes. It reads newer versions in the same
// way.
const version = "00"

// Parse reads a traceparent (W3C Trace Context, section 3.2). It returns false if the text is not a traceparent.
func Parse(text string) (Context, bool) {
	var c Context
	parts := strings.Split(text, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || len(parts[3]) != 2 || parts[0] == "ff" || parts[0] == version && len(parts) > 4 {
		return c, false
	}
	var other, flags [1]byte
	ok := unhex(other[:], parts[0]) && unhex(c.Trace[:], parts[1]) && unhex(c.Span[:], parts[2]) && unhex(flags[:], parts[3])
	c.Sampled = flags[0]&1 == 1
	return c, ok && c.Trace != TraceID{} && c.Span != SpanID{}
}

// unhex decodes hex digits into `to`. It accepts only lower case, as the standard requires.
func unhex(to []byte, text string) bool {
	if len(text) != 2*len(to) || strings.ToLower(text) != text {
		return false
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// String returns the traceparent.
func (c Context) String() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return version + "-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// withSpan returns the trace context of another span in the same trace.
func (c Context) withSpan(span SpanID) Context {
	return Context{Trace: c.Trace, Span: span, Sampled: c.Sampled}
}

// Root returns the trace context of a run that begins its own trace.
func Root(run string) Context {
	sum := sha256.Sum256([]byte("pawl.trace\x00" + run))
	return Context{Trace: TraceID(sum[:16]), Span: runSpan(run), Sampled: true}
}

// IsSampled reports whether a run that begins a trace is in the given share of all runs. The share is
// between 0 and 1. A run that is in one share is also in every higher share.
func IsSampled(run string, share float64) bool {
	root := Root(run)
	return float64(binary.BigEndian.Uint64(root.Trace[8:])>>1) < share*(1<<63)
}

// ContextOf returns the trace context with which a run was started. It returns false if the run has no trace.
func ContextOf(s *machine.State) (Context, bool) {
	for _, l := range s.Labels {
		if l.Key == Label {
			return Parse(l.Value)
		}
	}
	return Context{}, false
}

// span derives the id of a span from the kind and the numbers that identify the span.
func span(run, kind string, numbers ...uint64) SpanID {
	text := []byte("pawl.span\x00" + run + "\x00" + kind)
	for _, n := range numbers {
		text = binary.BigEndian.AppendUint64(text, n)
	}
	sum := sha256.Sum256(text)
	return SpanID(sum[:8])
}

func runSpan(run string) SpanID               { return span(run, "run") }
func visitSpan(run string, seq uint64) SpanID { return span(run, "visit", seq) }
func turnSpan(run string, seq uint64, attempt int) SpanID {
	return span(run, "turn", seq, uint64(attempt))
}

func stepSpan(run string, step uint32, attempt int) SpanID {
	return span(run, "step", uint64(step), uint64(attempt))
}

func delegationSpan(run string, step uint32, attempt int) SpanID {
	return span(run, "delegation", uint64(step), uint64(attempt))
}

// Turn returns the traceparent for the executor of an attempt of a turn. It returns "" if the run has no trace.
func Turn(s *machine.State, seq uint64, attempt int) string {
	return out(s, turnSpan(s.RunID, seq, attempt))
}

// Step returns the traceparent for the executor of an attempt of a step. It returns "" if the run has no trace.
func Step(s *machine.State, step uint32, attempt int) string {
	return out(s, stepSpan(s.RunID, step, attempt))
}

// Delegation returns the traceparent for the agent that receives an attempt of a step. It returns "" if
// the run has no trace. The result is the same each time the message is sent.
func Delegation(s *machine.State, step uint32, attempt int) string {
	return out(s, delegationSpan(s.RunID, step, attempt))
}

func out(s *machine.State, id SpanID) string {
	ctx, ok := ContextOf(s)
	if !ok {
		return ""
	}
	return ctx.withSpan(id).String()
}
