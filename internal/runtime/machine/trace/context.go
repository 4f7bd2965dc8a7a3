package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Label is the run label that holds the W3C trace context of a run: the caller's,
// or the run's own root where the caller had none. A run without it is in no trace.
const Label = "traceparent"

// TraceID is that of W3C trace context; zero = none.
type TraceID [16]byte

// SpanID is that of W3C trace context; zero = none.
type SpanID [8]byte

// Context is W3C trace context, level 1.
type Context struct {
	Trace   TraceID
	Span    SpanID
	Sampled bool
}

// version is the only one that is written; newer ones are read as this one.
const version = "00"

// Parse reads a traceparent; false if it is none (W3C Trace Context, section 3.2).
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

// unhex takes lower case only, as the standard has it.
func unhex(to []byte, text string) bool {
	if len(text) != 2*len(to) || strings.ToLower(text) != text {
		return false
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// String is the traceparent.
func (c Context) String() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return version + "-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// at is another span of the same trace.
func (c Context) at(span SpanID) Context {
	return Context{Trace: c.Trace, Span: span, Sampled: c.Sampled}
}

// Root is the context of a run that begins a trace of its own.
func Root(run string) Context {
	sum := sha256.Sum256([]byte("pawl.trace\x00" + run))
	return Context{Trace: TraceID(sum[:16]), Span: runSpan(run), Sampled: true}
}

// Picked says whether a run that begins a trace is among the given share of all,
// 0 to 1. The same run is picked at each higher share as well.
func Picked(run string, share float64) bool {
	root := Root(run)
	return float64(binary.BigEndian.Uint64(root.Trace[8:])>>1) < share*(1<<63)
}

// Of is the context that a run was started with; false: it is in no trace.
func Of(s *machine.State) (Context, bool) {
	for _, l := range s.Labels {
		if l.Key == Label {
			return Parse(l.Value)
		}
	}
	return Context{}, false
}

// span derives the id of a span from what it is.
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

// Turn is the traceparent for the executor of an attempt of a turn; "" = none.
func Turn(s *machine.State, seq uint64, attempt int) string {
	return out(s, turnSpan(s.RunID, seq, attempt))
}

// Step is the traceparent for the executor of an attempt of a step; "" = none.
func Step(s *machine.State, step uint32, attempt int) string {
	return out(s, stepSpan(s.RunID, step, attempt))
}

// Delegation is the traceparent for the agent that gets an attempt of a step; "" =
// none. It is the same for each sending.
func Delegation(s *machine.State, step uint32, attempt int) string {
	return out(s, delegationSpan(s.RunID, step, attempt))
}

func out(s *machine.State, id SpanID) string {
	ctx, ok := Of(s)
	if !ok {
		return ""
	}
	return ctx.at(id).String()
}
