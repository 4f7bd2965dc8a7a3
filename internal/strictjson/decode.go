package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Names selects which member names [Decode] accepts when it decodes an object into a struct.
type Names uint8

const (
	// Foreign is for structures that other programs define. This program reads only some of their members. All other
	// names are ignored, including names that differ from ours only in case.
	Foreign Names = iota + 1
	// Open is for our own structures that may have members of later versions. Unknown names are ignored.
	// A name that differs from one of ours only in case is a fault.
	Open
	// Closed is for our own structures that never have other members. Every other name is a fault.
	Closed
)

// Value decodes a text to map[string]any, []any, string, [json.Number], bool or nil. Numbers keep their
// spelling. The error is a [*Fault].
func Value(raw []byte) (any, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	return value(raw)
}

// ValueLenient does the same as [Value] for a text that [CheckLenient] accepts. Invalid characters
// become U+FFFD.
func ValueLenient(raw []byte) (any, error) {
	if err := CheckLenient(raw); err != nil {
		return nil, err
	}
	return value(raw)
}

// value does the same as [Value] for a text that was already checked.
func value(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, &Fault{Msg: err.Error()} // both readers differ, which the fuzz test looks for
	}
	return value, nil
}

// Object returns the members of an object. Their values are unchanged JSON. The error is a [*Fault].
func Object(raw []byte) (map[string]json.RawMessage, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	return object(raw)
}

// object does the same as [Object] for a text that was already checked.
func object(raw []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, &Fault{Msg: "want an object"}
	}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, &Fault{Msg: err.Error()}
	}
	return members, nil
}

// Compact returns a copy of a JSON value without insignificant white space. The error is a [*Fault].
func Compact(raw []byte) ([]byte, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(len(raw))
	if err := json.Compact(&out, raw); err != nil {
		return nil, &Fault{Msg: err.Error()}
	}
	return out.Bytes(), nil
}

// Decode decodes a text as [json.Unmarshal] does, but compares names exactly. names selects which members a
// struct accepts. A type with its own UnmarshalJSON gets all members, and so does a map whose values may have
// any type. The error is a [*Fault].
func Decode(raw []byte, into any, names Names) error {
	if err := Check(raw); err != nil {
		return err
	}
	clean, f := names.clean(raw, reflect.TypeOf(into))
	if f != nil {
		return f
	}
	if err := json.Unmarshal(clean, into); err != nil {
		return typeFault(err)
	}
	return nil
}

// typeFault converts a type error of encoding/json to a [Fault].
func typeFault(err error) *Fault {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		f := &Fault{Msg: fmt.Sprintf("want %s, got a JSON %s", wrong.Type, wrong.Value)}
		if wrong.Field != "" {
			f.At = "/" + strings.ReplaceAll(wrong.Field, ".", "/")
		}
		return f
	}
	return &Fault{Msg: strings.TrimPrefix(err.Error(), "json: ")}
}

var (
	readsItself = reflect.TypeFor[json.Unmarshaler]()
	readsText   = reflect.TypeFor[interface{ UnmarshalText(text []byte) error }]()
)

// clean returns a checked JSON text without those object members that the Go type t does not accept.
func (n Names) clean(raw []byte, t reflect.Type) ([]byte, *Fault) {
	for t.Kind() == reflect.Pointer && !t.Implements(readsItself) {
		t = t.Elem()
	}
	if own := reflect.PointerTo(t); t.Implements(readsItself) || own.Implements(readsItself) || own.Implements(readsText) {
		return raw, nil
	}
	first := bytes.TrimLeft(raw, " \t\r\n")[0]
	switch {
	case t.Kind() == reflect.Struct && first == '{':
		return n.members(raw, fieldsOf(t))
	case t.Kind() == reflect.Map && first == '{' && t.Elem().Kind() != reflect.Interface:
		return n.each(raw, t.Elem())
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && first == '[':
		return n.items(raw, t.Elem())
	}
	return raw, nil
}

// members returns a JSON object without those members that a struct with these fields does not accept.
func (n Names) members(raw []byte, fields map[string]reflect.Type) ([]byte, *Fault) {
	all, err := object(raw)
	if err != nil {
		return nil, &Fault{Msg: err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		field, known := fields[name]
		if !known {
			if f := n.unknown(name, fields); f != nil {
				return nil, f
			}
			delete(all, name)
			continue
		}
		clean, f := n.clean(all[name], field)
		if f != nil {
			return nil, f.under(name)
		}
		all[name] = clean
	}
	return written(all)
}

// unknown returns the fault for a name that a struct does not have. It returns nil if the name is
// ignored.
func (n Names) unknown(name string, fields map[string]reflect.Type) *Fault {
	allowed := slices.Sorted(maps.Keys(fields))
	for _, known := range allowed {
		if n != Foreign && strings.EqualFold(known, name) {
			return &Fault{Msg: fmt.Sprintf("the member %q differs from %q by case only", clip(name), known)}
		}
	}
	if n == Closed {
		return &Fault{Msg: fmt.Sprintf("there is no member %q, only %s", clip(name), strings.Join(allowed, ", "))}
	}
	return nil
}

// each calls clean for every value of a JSON object that is decoded to a map.
func (n Names) each(raw []byte, t reflect.Type) ([]byte, *Fault) {
	all, err := object(raw)
	if err != nil {
		return nil, &Fault{Msg: err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		clean, f := n.clean(all[name], t)
		if f != nil {
			return nil, f.under(name)
		}
		all[name] = clean
	}
	return written(all)
}

// items calls clean for every item of a list.
func (n Names) items(raw []byte, t reflect.Type) ([]byte, *Fault) {
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, &Fault{Msg: err.Error()}
	}
	for i := range all {
		clean, f := n.clean(all[i], t)
		if f != nil {
			return nil, f.under(strconv.Itoa(i))
		}
		all[i] = clean
	}
	return written(all)
}

func written(value any) ([]byte, *Fault) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, &Fault{Msg: err.Error()}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// fieldsOf returns the types of a struct's members by name, including members of embedded structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			for name, t := range fieldsOf(inner) {
				if _, nearer := fields[name]; !nearer {
					fields[name] = t
				}
			}
		case !f.IsExported() || f.Tag.Get("json") == "-":
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields
}

// inexact returns a fault for the first number that a double cannot represent exactly. It visits members
// in the order of their names.
func inexact(value any) *Fault {
	switch v := value.(type) {
	case json.Number:
		if _, exact := Double(v.String()); !exact {
			return NotExact(v.String())
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if f := inexact(v[name]); f != nil {
				return f.under(name)
			}
		}
	case []any:
		for i := range v {
			if f := inexact(v[i]); f != nil {
				return f.under(strconv.Itoa(i))
			}
		}
	}
	return nil
}
