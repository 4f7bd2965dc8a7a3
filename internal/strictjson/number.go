package strictjson

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxPlain is how long a number may be that [Decimal] writes without an exponent, bytes.
const maxPlain = 64

// Decimal is the one spelling of a number's exact value: equal numbers have one, unequal ones
// never. lit is a JSON number that [Check] takes. The work is bounded by its length.
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

// spell writes digits, without zeros at either end, times ten to the exponent.
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

// maxWhole is up to where a double tells every whole number from its neighbours: 2^53.
const maxWhole = 1 << 53

// Double is a number as a double, and whether that is the same number: it has the same
// shortest spelling, and a whole number is the very one. lit is a JSON number that [Check]
// takes.
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

// Doubles takes a value whose every number is the same as a double, which is all that a
// google.protobuf.Value carries. The error is a [*Fault] that names the first other one.
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

// NotExact is the fault of a number that a reader of doubles would change.
func NotExact(lit string) *Fault {
	return &Fault{Msg: fmt.Sprintf("the number %s is another one as a 64-bit floating-point number; give it as a text", clip(lit))}
}
