package rules

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Difference returns the path of the first field in which two records differ, or "" if the records are
// equal. It builds the path only after it has found a difference, because nearly all compared values
// are equal.
func Difference(a, b machine.Record) string {
	at, _ := differAt(reflect.ValueOf(a), reflect.ValueOf(b))
	return at
}

func differAt(a, b reflect.Value) (at string, differ bool) {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return " (kind)", true
	}
	if !a.IsValid() {
		return "", false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return "", a.IsNil() != b.IsNil()
		}
		return differAt(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if at, differ := differAt(a.Field(i), b.Field(i)); differ {
				return "." + a.Type().Field(i).Name + at, true
			}
		}
		return "", false
	case reflect.Slice, reflect.Array:
		return differInList(a, b)
	}
	return "", !a.Equal(b)
}

func differInList(a, b reflect.Value) (at string, differ bool) {
	if a.Len() != b.Len() {
		return " (length)", true
	}
	if a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Uint8 && bytes.Equal(a.Bytes(), b.Bytes()) {
		return "", false
	}
	for i := range a.Len() {
		if at, differ := differAt(a.Index(i), b.Index(i)); differ {
			return fmt.Sprintf("[%d]%s", i, at), true
		}
	}
	return "", false
}
