package expr

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// Value converts a JSON text to the value that expressions use. It is equal to the value that every other
// reader of the text gets. Numbers are doubles; whole numbers from 2^53 on are int or uint, which compare exactly. A number
// that fits in neither, for example 1e400 or one with 20 decimals, is an error, because the expression would
// use a different number. Errors: [*strictjson.Fault].
func Value(raw []byte) (any, error) {
	value, err := strictjson.Value(raw)
	if err != nil {
		return nil, err
	}
	seen, path, lit := convertValue(value, nil)
	if lit != "" {
		fault := strictjson.NotExact(lit)
		fault.At = pointer(path)
		return nil, fault
	}
	return seen, nil
}

// convertValue converts a decoded JSON value in place. If a number has no exact representation, convertValue returns its
// text as lit and its path as position.
func convertValue(value any, path []string) (seen any, position []string, lit string) {
	switch v := value.(type) {
	case json.Number:
		n, exact := numberOf(v.String())
		if !exact {
			return nil, path, v.String()
		}
		return n, nil, ""
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if v[name], position, lit = convertValue(v[name], append(slices.Clip(path), name)); lit != "" {
				return nil, position, lit
			}
		}
	case []any:
		for i := range v {
			if v[i], position, lit = convertValue(v[i], append(slices.Clip(path), strconv.Itoa(i))); lit != "" {
				return nil, position, lit
			}
		}
	}
	return value, nil, ""
}

// maxWhole is the limit below which doubles represent every whole number exactly.
const maxWhole = 1 << 53

// numberOf returns a JSON number in the form for expressions. It also reports whether this form is exact.
func numberOf(lit string) (any, bool) {
	f, exact := strictjson.Double(lit)
	if math.Abs(f) < maxWhole {
		return f, exact
	}
	whole := strictjson.Decimal(lit)
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
		return n, true
	}
	if n, err := strconv.ParseUint(whole, 10, 64); err == nil {
		return n, true
	}
	return f, exact
}

func pointer(path []string) string {
	var at strings.Builder
	for _, token := range path {
		at.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return at.String()
}
