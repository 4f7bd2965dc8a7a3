//go:build sim

package simulation

import (
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// silence selects the part of a call's usage that the endpoint reports.
type silence int

const (
	saysAll silence = iota
	saysNothing
	saysInput
	saysOutput
)

// `told` returns the usage that the caller of the model reports. For a call that was cut, the usage is
// marked as incomplete.
func (c *modelCall) told() *pawlv1.Usage {
	u := proto.CloneOf(c.usage)
	if c.silence == saysNothing || c.silence == saysOutput {
		u.InputTokens = 0
	}
	if c.silence == saysNothing || c.silence == saysInput {
		u.OutputTokens = 0
	}
	if c.silence == saysNothing && c.answer != nil {
		return nil
	}
	u.Estimated = c.silence != saysAll && c.answer == nil && c.failure.GetRetryAfter() == nil
	return u
}

// counts returns how a report must be counted, as docs/guides/models.md says: missing figures count as
// the bound, and so does the output of a call that was cut.
func (r *report) counts() (in, out int64, estimated bool) {
	in, out, estimated = r.usage.GetInputTokens(), r.usage.GetOutputTokens(), r.usage.GetEstimated()
	switch {
	case r.usage.GetEstimated():
		out = max(out, mostOutput)
	case r.answered && out == 0:
		out, estimated = mostOutput, true
	}
	if in == 0 && (r.answered || r.usage.GetEstimated()) {
		in, estimated = mostInput, true
	}
	return in, out, estimated
}

// loose reports whether the endpoint may consume more than the bound of a call of this run. It may not in a
// run with a lease, because the lender treats such consumption as a breach of the lease.
func (c *conversation) loose() bool {
	s := c.world.oracle(c.node).spent[c.run]
	return s != nil && s.parent == nil && !s.leased
}
