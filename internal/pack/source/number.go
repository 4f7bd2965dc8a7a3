package source

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxInteger is the largest integer that a double, and therefore RFC 8785, keeps
// exactly together with its neighbours.
const maxInteger = 1 << 53

var (
	errInteger = errors.New("integers lie between -9007199254740992 and 9007199254740992")
	errDouble  = errors.New("the number does not fit a 64-bit floating point number")
)

// parseNumber converts a decimal literal. Integers beyond ±2^53, however they
// are written, numbers beyond the range of a double and those with more digits than it has
// are errors: the canonical form would have another number.
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
	// At 2^53 and above every double is an integer; whether the literal was that
	// integer or a neighbour cannot be told any more.
	if math.Abs(v) >= maxInteger {
		return 0, errInteger
	}
	if _, exact := strictjson.Double(strings.TrimPrefix(lit, "+")); !exact {
		return 0, fmt.Errorf("it is %s as a 64-bit floating point number; write that, or a string", strconv.FormatFloat(v, 'g', -1, 64))
	}
	return v, nil
}
