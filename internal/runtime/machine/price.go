package machine

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Price is the price of a model's tokens, in millionths of a US dollar for a million tokens. This is the same as millionths of a
// micro-dollar for one token.
type Price struct {
	Input  int64
	Cached int64
	Output int64
	// Reasoning is the price of the output tokens that are not in the answer.
	Reasoning int64
}

// MaxPriceUSD bounds a price, in US dollars for a million tokens.
const MaxPriceUSD = 1_000_000

// Cost returns the cost of a usage in micro-dollars, rounded up, so that it is 0 only if the usage is
// free. It is computed from this price and does not use the cost that the executor reports. The figures
// of the usage must not be negative. If the cost overflows, Cost returns the largest int64.
func (p Price) Cost(u Usage) int64 {
	cached, reasoning := min(u.CachedTokens, u.InputTokens), min(u.ReasoningTokens, u.OutputTokens)
	var high, low uint64
	for _, part := range [...]struct{ tokens, price int64 }{
		{u.InputTokens - cached, p.Input}, {cached, p.Cached},
		{u.OutputTokens - reasoning, p.Output}, {reasoning, p.Reasoning},
	} {
		h, l := bits.Mul64(uint64(part.tokens), uint64(part.price))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	const million = 1_000_000
	if high >= million {
		return math.MaxInt64
	}
	cost, rest := bits.Div64(high, low, million)
	if rest > 0 {
		cost++
	}
	return int64(min(cost, math.MaxInt64))
}

// PriceUSD returns the price for amounts in US dollars for a million tokens. If cached is nil, the
// price of input applies to cached tokens. If reasoning is nil, the price of output applies to
// reasoning tokens.
func PriceUSD(input float64, cached *float64, output float64, reasoning *float64) Price {
	p := Price{Input: MicroUSD(input), Output: MicroUSD(output)}
	p.Cached, p.Reasoning = p.Input, p.Output
	if cached != nil {
		p.Cached = MicroUSD(*cached)
	}
	if reasoning != nil {
		p.Reasoning = MicroUSD(*reasoning)
	}
	return p
}

// MicroUSD converts an amount of US dollars to millionths of a dollar, rounded up. The amount must not
// be negative. MicroUSD uses the shortest decimal form of the number. For example, 2.007 becomes 2 007
// 000, although the nearest double is not exactly 2.007. If the amount overflows, MicroUSD returns the
// largest int64.
func MicroUSD(usd float64) int64 {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(usd, 'g', -1, 64))
	if !ok {
		return math.MaxInt64
	}
	exact.Mul(exact, big.NewRat(1_000_000, 1))
	whole, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return math.MaxInt64
	}
	return whole.Int64()
}
