package strictjson

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxPlain is the longest number that [Decimal] writes without an exponent, in bytes.
const maxPlain = 64

// Decimal returns the canonical spelling of a number's exact value. Two numbers have the same
// spelling if and only if they are equal. lit is a JSON number that [Check] accepts. The work is
// proportional to its length.
func Decimal(lit string) string {
	lit, negative := strings.CutPrefix(lit, "-")
	mantissa, exponent := lit, 0
	if i := strings.IndexAny(lit, "eE"); i >= 0 {
		mantissa = lit[:i]
		exponent, _ = strconv.Atoi(lit[i+1:])
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	if short == "" {
		return "0"
	}
	out := spell(short, exponent)
	if negative {
		return "-" + out
	}
	return out
}

// spell writes the number digits × 10^exponent. digits has no zeros at its ends.
func spell(digits string, exponent int) string {
	point := len(digits) + exponent // digits before the point
	switch {
	case exponent >= 0 && point <= maxPlain:
		return digits + strings.Repeat("0", exponent)
	case exponent < 0 && point > 0 && len(digits) < maxPlain:
		return digits[:point] + "." + digits[point:]
	case exponent < 0 && point <= 0 && -exponent+2 <= maxPlain:
		return "0." + strings.Repeat("0", -point) + digits
	}
	return digits + "e" + strconv.Itoa(exponent)
}

// maxWhole is 2^53, up to which a double represents every integer exactly.
const maxWhole = 1 << 53

// Double converts a number to a double and reports whether the double is the same number. This is
// the case if both have the same shortest spelling and, for an integer, the same value. lit is a
// JSON number that [Check] accepts.
func Double(lit string) (float64, bool) {
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return 0, false
	}
	if len(lit) <= 15 && !strings.ContainsAny(lit, "eE") {
		return f, true
	}
	exact := Decimal(lit)
	if Decimal(strconv.FormatFloat(f, 'e', -1, 64)) != exact {
		return f, false
	}
	if math.Abs(f) < maxWhole {
		return f, true
	}
	whole, _ := new(big.Float).SetFloat64(f).Int(nil)
	return f, Decimal(whole.String()) == exact
}

// Doubles returns an error if doubles cannot represent all numbers in a value. A
// google.protobuf.Value has only doubles. The error is a [*Fault] that names the first such number.
func Doubles(raw []byte) error {
	value, err := Value(raw)
	if err != nil {
		return err
	}
	if f := inexact(value); f != nil {
		return f
	}
	return nil
}

// NotExact returns the fault for a number that would change when it is read as a double.
func NotExact(lit string) *Fault {
	return &Fault{Msg: fmt.Sprintf("the number %s is another one as a 64-bit floating-point number; give it as a text", clip(lit))}
}
