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

// domain is a prefix of the hashed bytes, so that a business key never equals a hash that is made for another purpose.
const domain = "pawl business key 1\x00"

// MissingField is the error code of a call whose payload lacks a field of the business key. Without the key, a second
// call with the same effect could not be prevented, so the call is refused.
const MissingField = "DEDUPE_FIELD_MISSING"

// Keys are the business keys of one call: the key in the present form, and the key in the form of earlier versions of
// this program.
type Keys struct {
	// Key is the SHA-256 over the tool and the payload fields that the pack names, in canonical form. Equal numbers
	// have the same form, for example 1 and 1.0. The zero value means that the call has no business key.
	Key [32]byte
	// Older is the key that programs before ADR 0070 derived, and that a store may still contain. They wrote some equal
	// numbers in different forms, so Older can differ from Key.
	Older [32]byte
}

// KeysOf returns the business keys of a call with a JSON payload. If a key cannot be derived, it returns the refusal of
// the call.
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
		value := valueAt(doc, field)
		if value == nil {
			return Keys{}, &machine.Denial{Code: MissingField, Message: fmt.Sprintf("payload%s must be there: it says which effect of tool %q this is", field, tool)}
		}
		values = append(values, value)
	}
	var keys Keys
	for key, spell := range map[*[32]byte]func(json.Number) json.Number{&keys.Key: canonicalNumber, &keys.Older: legacyNumber} {
		raw, err := json.Marshal(rewriteNumbers(values, spell))
		if err != nil {
			return Keys{}, &machine.Denial{Code: MissingField, Message: err.Error()}
		}
		*key = sha256.Sum256(append([]byte(domain), validate.Canonical(raw)...))
	}
	return keys, nil
}

// valueAt returns the value in doc to which a JSON pointer (RFC 6901) refers. It returns nil if there is none or if the
// value is null.
func valueAt(doc any, pointer string) any {
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

// rewriteNumbers returns a copy of a JSON value in which the function spell has rewritten each number.
func rewriteNumbers(v any, spell func(json.Number) json.Number) any {
	switch v := v.(type) {
	case json.Number:
		return spell(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = rewriteNumbers(v[k], spell)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = rewriteNumbers(v[i], spell)
		}
		return out
	}
	return v
}

// canonicalNumber returns the canonical form of a number. Equal numbers have the same form, and different numbers have
// different forms.
func canonicalNumber(n json.Number) json.Number { return json.Number(strictjson.Decimal(n.String())) }

// legacyNumber returns the form that a number had in business keys before ADR 0070. Whole numbers below 2^53 have one form;
// all other numbers stay as they were written.
func legacyNumber(n json.Number) json.Number {
	if !strings.ContainsAny(n.String(), ".eE") {
		return n
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return n
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}
