package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// match tells where got does not contain what is wanted; nil: it does. A mapping
// contains one with fewer keys, a list has as many elements, each contained; all
// else is equal. A mapping with one key that begins with $ is a rule of its own, but
// for {$bytes: BASE64}, which is a value.
func match(path string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		if rule, arg, ok := ruleOf(want); ok {
			return matchRule(path, rule, arg, got)
		}
		fields, ok := got.(map[string]any)
		if !ok {
			return differs(path, want, got)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if err := match(path+"."+key, want[key], fields[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return differs(path, want, got)
		}
		for i := range want {
			if err := match(fmt.Sprintf("%s[%d]", path, i), want[i], list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(want, got) {
		return differs(path, want, got)
	}
	return nil
}

func ruleOf(want map[string]any) (string, any, bool) {
	for key, arg := range want {
		if len(want) == 1 && strings.HasPrefix(key, "$") && key != "$bytes" {
			return key, arg, true
		}
	}
	return "", nil, false
}

func matchRule(path, rule string, arg, got any) error {
	var ok bool
	switch rule {
	case "$contains": // text that is part of the text, or an element of the list
		ok = contains(path, arg, got)
	case "$set": // whether it is neither missing, empty nor zero
		ok = arg == !empty(got)
	case "$least": // a number that it is not below
		n, isNumber := got.(float64)
		least, _ := arg.(float64)
		ok = isNumber && n >= least
	case "$length":
		ok = arg == length(got)
	case "$oneof":
		words, _ := arg.([]any)
		ok = slices.ContainsFunc(words, func(word any) bool { return match(path, word, got) == nil })
	default:
		return fmt.Errorf("%s: %s is no rule", path, rule)
	}
	if !ok {
		return differs(path, map[string]any{rule: arg}, got)
	}
	return nil
}

func contains(path string, want, got any) bool {
	switch got := got.(type) {
	case string:
		text, ok := want.(string)
		return ok && strings.Contains(got, text)
	case []any:
		return slices.ContainsFunc(got, func(one any) bool { return match(path, want, one) == nil })
	}
	return false
}

func empty(v any) bool {
	return v == nil || length(v) == float64(0) || reflect.ValueOf(v).IsZero()
}

// length is a number as JSON has it; nil for what has none.
func length(v any) any {
	switch v := v.(type) {
	case string:
		return float64(len(v))
	case []any:
		return float64(len(v))
	case map[string]any:
		return float64(len(v))
	}
	return nil
}

func differs(path string, want, got any) error {
	return fmt.Errorf("%s: want %s, got %s", strings.TrimPrefix(path, "."), short(want), short(got))
}

const shown = 2000

func short(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > shown {
		return fmt.Sprintf("%s... (%d bytes)", text[:shown], len(text))
	}
	return string(text)
}
