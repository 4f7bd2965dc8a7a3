package source

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxInteger is the largest number up to which a double, and therefore RFC 8785, represents all integers exactly.
const maxInteger = 1 << 53

var (
	errInteger = errors.New("integers lie between -9007199254740992 and 9007199254740992")
	errDouble  = errors.New("the number does not fit a 64-bit floating point number")
)

// parseNumber converts a decimal literal. It returns an error for integers beyond ±2^53 in any
// notation, for numbers beyond the range of a double, and for numbers with more digits than a double
// has. For these numbers, the canonical form would contain a different number.
func parseNumber(lit string) (float64, error) {
	v, err := strconv.ParseFloat(lit, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, errDouble
	}
	if !strings.ContainsAny(lit, ".eE") {
		n, err := strconv.ParseInt(strings.TrimPrefix(lit, "+"), 10, 64)
		if err != nil || n > maxInteger || n < -maxInteger {
			return 0, errInteger
		}
		return float64(n), nil
	}
	// At 2^53 and above, every double is an integer. So the literal may have been this integer or
	// another integer near it.
	if math.Abs(v) >= maxInteger {
		return 0, errInteger
	}
	if _, exact := strictjson.Double(strings.TrimPrefix(lit, "+")); !exact {
		return 0, fmt.Errorf("it is %s as a 64-bit floating point number; write that, or a string", strconv.FormatFloat(v, 'g', -1, 64))
	}
	return v, nil
}
