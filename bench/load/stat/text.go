package stat

import (
	"math"
	"strconv"
)

// Amount keeps three or four digits that mean something.
func Amount(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 1000:
		return grouped(int64(math.Round(v)))
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// grouped writes an integer with thin groups of three digits.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

// SpreadText is nothing of no round, and says of one that it is alone: it has no spread.
func (s Stat) SpreadText() string {
	switch len(s.Rounds) {
	case 0:
		return ""
	case 1:
		return "once"
	}
	return "±" + Amount(s.Spread)
}

// Text of a bar, none of nil.
func (b *Bar) Text() string {
	switch {
	case b == nil:
		return ""
	case b.AtMost:
		return "<= " + strconv.FormatFloat(b.Limit, 'f', -1, 64)
	default:
		return ">= " + strconv.FormatFloat(b.Limit, 'f', -1, 64)
	}
}
