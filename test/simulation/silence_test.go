//go:build sim

package simulation

import (
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// silence is what of a call's usage an endpoint says.
type silence int

const (
	saysAll silence = iota
	saysNothing
	saysInput
	saysOutput
)

// told is what whoever made the call tells of its usage. Of one that was cut it says that this is
// not all.
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

// counts is what a report has to be counted as, as docs/guides/models.md says: what an answer does not
// tell is the bound, and so is what was written by a call that was cut.
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

// loose: the model of the run may consume more than its bound. Whoever lent to it takes that for
// a breach of the lease, and is another matter.
func (c *conversation) loose() bool {
	s := c.world.oracle(c.node).spent[c.run]
	return s != nil && s.parent == nil && !s.leased
}
