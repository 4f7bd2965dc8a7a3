package expr

import (
	"cel.dev/cel-go/common/cost"
)

// sizes gives CEL no estimates for the sizes of values, so that CEL computes the minimum cost of an evaluation.
type sizes struct{}

func (sizes) EstimateSize(cost.AstNode) *cost.SizeEstimate { return nil }

func (sizes) EstimateCallCost(_, _ string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	return nil
}
