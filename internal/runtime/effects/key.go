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

// domain is a prefix of the hashed bytes, so that a business key never equals another kind of hash.
const domain = "pawl business key 1\x00"

// MissingField is the code of the refusal of a call whose payload does not have the fields of the
// business key. Without the key, a second call with the same effect could not be prevented.
const MissingField = "DEDUPE_FIELD_MISSING"

// Keys are the business keys of one call.
type Keys struct {
	// Key is the SHA-256 over the tool and the payload fields that the pack names, in canonical form.
	// Equal numbers have the same canonical form. The zero value means that the call has no key.
	Key [32]byte
	// Older is the key that programs before ADR 0070 derived. They wrote some equal numbers in different forms, so Older can differ from
	// Key. A store may contain such a key.
	Older [32]byte
}

// KeysOf returns the business keys of a call with a JSON payload. If the call has no key, it returns the reason.
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

// at returns the value that a JSON pointer (RFC 6901) refers to. It returns nil if there is no value or
// if the value is null.
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

// spelled returns a copy of a value in which each number has the form that spell returns.
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

// exactly returns the canonical form of a number. Equal numbers have the same form, and different
// numbers have different forms.
func exactly(n json.Number) json.Number { return json.Number(strictjson.Decimal(n.String())) }

// before returns the form that numbers had before ADR 0070. Whole numbers below 2^53 have one form; all other numbers stay as they were
// written.
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
