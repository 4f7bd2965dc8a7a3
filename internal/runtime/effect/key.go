package effect

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/request"
)

// domain separates business keys from all other hashes.
const domain = "pawl business key 1\x00"

// MissingField is the code of the refusal of a call without its business key: without one
// nobody could say whether it was made before.
const MissingField = "DEDUPE_FIELD_MISSING"

// KeyOf is the business key of a call: SHA-256 over the tool and the fields of the payload
// that the pack names, in canonical form, equal numbers spelled alike. Zero: it has none.
func KeyOf(tool string, fields []string, payload []byte) (key [32]byte, denial *machine.Denial) {
	if len(fields) == 0 {
		return key, nil
	}
	var doc any
	dec := json.NewDecoder(strings.NewReader(string(payload)))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return key, &machine.Denial{Code: MissingField, Message: "the payload is not JSON: " + err.Error()}
	}
	values := []any{tool}
	for _, field := range fields {
		value, ok := at(doc, field)
		if !ok || value == nil {
			return key, &machine.Denial{Code: MissingField, Message: fmt.Sprintf("payload%s must be there: it says which effect of tool %q this is", field, tool)}
		}
		values = append(values, plain(value))
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return key, &machine.Denial{Code: MissingField, Message: err.Error()}
	}
	return sha256.Sum256(append([]byte(domain), request.Canonical(raw)...)), nil
}

// at follows a JSON pointer (RFC 6901).
func at(doc any, pointer string) (any, bool) {
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch node := doc.(type) {
		case map[string]any:
			next, ok := node[token]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(node) || strconv.Itoa(i) != token {
				return nil, false
			}
			doc = node[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// plain spells numbers that are equal alike: 7, 7.0 and 7e0. What a double cannot tell from
// its neighbours keeps its digits, so that no two keys become one.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		f, err := v.Float64()
		if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return v
		}
		return json.Number(strconv.FormatInt(int64(f), 10))
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}
