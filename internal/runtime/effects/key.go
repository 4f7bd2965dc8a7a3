package effects

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// domain separates business keys from all other hashes.
const domain = "pawl business key 1\x00"

// MissingField is the code for refusing a call without its business key: without a key it could not be known
// whether the call was made before.
const MissingField = "DEDUPE_FIELD_MISSING"

// Keys are the business keys of one call.
type Keys struct {
	// Key is the SHA-256 over the tool and the payload fields that the pack names, in canonical form, with
	// equal numbers in the same form. Zero = it has none.
	Key [32]byte
	// Older is the key that programs before ADR 0070 derived, which wrote some equal numbers in different
	// forms. For most calls it equals Key. A store may contain an older key.
	Older [32]byte
}

// KeysOf returns the business keys of a call with a JSON payload, or the reason why it has none.
func KeysOf(tool string, fields []string, payload []byte) (Keys, *machine.Denial) {
	if len(fields) == 0 {
		return Keys{}, nil
	}
	doc, err := strictjson.Value(payload)
	if err != nil {
		return Keys{}, &machine.Denial{Code: MissingField, Message: "the payload: " + err.Error()}
	}
	values := []any{tool}
	for _, field := range fields {
		value := at(doc, field)
		if value == nil {
			return Keys{}, &machine.Denial{Code: MissingField, Message: fmt.Sprintf("payload%s must be there: it says which effect of tool %q this is", field, tool)}
		}
		values = append(values, value)
	}
	var keys Keys
	for key, spell := range map[*[32]byte]func(json.Number) json.Number{&keys.Key: exactly, &keys.Older: before} {
		raw, err := json.Marshal(spelled(values, spell))
		if err != nil {
			return Keys{}, &machine.Denial{Code: MissingField, Message: err.Error()}
		}
		*key = sha256.Sum256(append([]byte(domain), validate.Canonical(raw)...))
	}
	return keys, nil
}

// at follows a JSON pointer (RFC 6901); nil = it leads to null or to no value.
func at(doc any, pointer string) any {
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch node := doc.(type) {
		case map[string]any:
			doc = node[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(node) || strconv.Itoa(i) != token {
				return nil
			}
			doc = node[i]
		default:
			return nil
		}
	}
	return doc
}

// spelled returns a copy of a value with its numbers written by spell.
func spelled(v any, spell func(json.Number) json.Number) any {
	switch v := v.(type) {
	case json.Number:
		return spell(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = spelled(v[k], spell)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = spelled(v[i], spell)
		}
		return out
	}
	return v
}

// exactly gives equal numbers the same form, and different numbers different forms.
func exactly(n json.Number) json.Number { return json.Number(strictjson.Decimal(n.String())) }

// before returns the form of numbers before ADR 0070: whole numbers below 2^53 in one form, all others as
// they were written.
func before(n json.Number) json.Number {
	if !strings.ContainsAny(n.String(), ".eE") {
		return n
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return n
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}
