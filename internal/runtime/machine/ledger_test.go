package machine

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestMicroUSD: an amount is the decimal number that was written, rounded up.
func TestMicroUSD(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		usd  float64
		want int64
	}{
		{0, 0}, {1e-12, 1}, {0.000001, 1}, {0.0000011, 2}, {0.15, 150_000}, {2.007, 2_007_000}, {2.043, 2_043_000},
		{8.2, 8_200_000}, {1e9, 1e15}, {1e300, math.MaxInt64}, {math.Inf(1), math.MaxInt64}, {math.NaN(), math.MaxInt64},
	} {
		if got := MicroUSD(tt.usd); got != tt.want {
			t.Errorf("%v is %d, want %d", tt.usd, got, tt.want)
		}
	}
	for milli := range int64(20_000) {
		if got := MicroUSD(float64(milli) / 1000); got != milli*1000 {
			t.Fatalf("%d thousandths are %d", milli, got)
		}
	}
}

// TestCostIsExact: the cost is the sum of tokens by price, rounded up, of any figures that
// the contract takes and beyond.
func TestCostIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		figure := rapid.Int64Range(0, math.MaxInt64)
		if rapid.Bool().Draw(t, "small") {
			figure = rapid.Int64Range(0, 5_000_000)
		}
		u := Usage{InputTokens: figure.Draw(t, "input"), OutputTokens: figure.Draw(t, "output")}
		u.CachedTokens = rapid.Int64Range(0, u.InputTokens).Draw(t, "cached")
		u.ReasoningTokens = rapid.Int64Range(0, u.OutputTokens).Draw(t, "reasoning")
		p := Price{Input: figure.Draw(t, "p"), Cached: figure.Draw(t, "p"), Output: figure.Draw(t, "p"), Reasoning: figure.Draw(t, "p")}
		sum := new(big.Int)
		for _, part := range [][2]int64{
			{u.InputTokens - u.CachedTokens, p.Input}, {u.CachedTokens, p.Cached},
			{u.OutputTokens - u.ReasoningTokens, p.Output}, {u.ReasoningTokens, p.Reasoning},
		} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		cost, rest := sum.QuoRem(sum, big.NewInt(1_000_000), new(big.Int))
		if rest.Sign() > 0 {
			cost.Add(cost, big.NewInt(1))
		}
		want := int64(math.MaxInt64)
		if cost.IsInt64() {
			want = cost.Int64()
		}
		if got := p.Cost(u); got != want {
			t.Fatalf("%+v at %+v costs %d, want %d", u, p, got, want)
		}
	})
}
