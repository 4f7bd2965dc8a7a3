package runtime

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// checkLabels bounds the caller's labels; that of a trace must be one.
func (e *Engine) checkLabels(labels []machine.Label) error {
	if err := tooLarge("labels", "MAX_LABELS", len(labels), e.cfg.MaxLabels); err != nil {
		return err
	}
	for _, l := range labels {
		if _, ok := trace.Parse(l.Value); l.Key == trace.Label && !ok {
			return malformed("BAD_LABEL", "labels["+l.Key+"]", "must be a W3C traceparent: 00-<32 hex>-<16 hex>-<2 hex>, lower case, ids not all zero")
		}
	}
	return nil
}

// traced adds the trace context that the run keeps: the caller's, or one of its own
// for the share of runs that begin a trace. The choice is stored with the run, so
// that neither a restart nor another configuration changes it.
func (e *Engine) traced(run string, labels []machine.Label, traceparent string) []machine.Label {
	if slices.ContainsFunc(labels, isTrace) {
		return labels
	}
	ctx, given := trace.Parse(traceparent)
	switch {
	case given:
	case e.cfg.TraceShare > 0 && trace.Picked(run, e.cfg.TraceShare):
		ctx = trace.Root(run)
	default:
		return labels
	}
	return append(slices.Clone(labels), machine.Label{Key: trace.Label, Value: ctx.String()})
}

// untraced leaves a source's trace context to the source.
func untraced(labels []machine.Label) []machine.Label {
	return slices.DeleteFunc(slices.Clone(labels), isTrace)
}

func isTrace(l machine.Label) bool { return l.Key == trace.Label }
