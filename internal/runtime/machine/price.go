package machine

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Price is what a model takes for a million tokens, in millionths of a US dollar: so
// many millionths of a micro-dollar a token.
type Price struct {
	Input  int64
	Cached int64
	Output int64
	// Reasoning is the price of the tokens among the output that are not said.
	Reasoning int64
}

// MaxPriceUSD bounds a price, in US dollars for a million tokens.
const MaxPriceUSD = 1_000_000

// Cost is what usage costs, in micro-dollars, rounded up: what costs something is
// never nothing. Figures of usage are 0 or more; a sum that no number holds is the
// largest one. It counts what the pack's and the operator's prices do, and nothing of
// what the executor says that it paid.
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

// PriceUSD makes a price of US dollars for a million tokens; cached is input unless it is
// given, reasoning is output.
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

// MicroUSD is an amount of US dollars, 0 or more, in millionths, rounded up. The amount
// is the decimal number that people write: 2.007 is 2 007 000, whatever the nearest double
// is. What no number holds is the largest one.
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
