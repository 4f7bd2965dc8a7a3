package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// document is an operator's file of entries, YAML or JSON, that is read again while the sidecar runs: limits,
// accounts, schedules. Every fault is reported with line and column, the path of the field
// ("accounts[2].window") and the allowed values. A file with a fault is not applied at all.
type document struct {
	placed
	// positions are the positions of the file's fields, by their paths.
	positions map[string][2]int
	// faulty are the fields that have a fault.
	faulty map[string]bool
}

// readDocument reads a file into the value that into points to: a struct with yaml tags, or a map of them.
// The error is that of reading the file; faults of its content are collected in the document.
func readDocument(what, path string, into any) (*document, error) {
	raw, err := readTable(what, path)
	if err != nil {
		return nil, err
	}
	d := &document{placed: placed{path: path}, positions: map[string][2]int{}, faulty: map[string]bool{}}
	root, f := source.Read(raw, fileLimits, func(twice source.Twice) {
		d.at(twice.Line, twice.Col, pathOf(twice.Path), "is given twice")
	})
	if f != nil {
		return nil, &Error{Faults: []Fault{{Field: path, Message: f.Error()}}}
	}
	d.fill(root, "", reflect.ValueOf(into).Elem())
	return d, nil
}

// pathOf returns a path in the form in which fields are named.
func pathOf(tokens []string) (path string) {
	for _, token := range tokens {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			path += "[" + token + "]"
		} else {
			path += "." + token
		}
	}
	return strings.TrimPrefix(path, ".")
}

// err returns all faults; nil = none.
func (d *document) err() error {
	if len(d.list) == 0 {
		return nil
	}
	return &Error{Faults: d.list}
}

// has reports whether the file has a field.
func (d *document) has(field string) bool {
	_, ok := d.positions[field]
	return ok
}

// wrong adds an error about a field. Its position is that of the field, or that of the parent if the
// field is missing.
func (d *document) wrong(field, format string, args ...any) {
	d.faulty[field] = true
	d.add(d.where(field), format, args...)
}

// where returns a field with its position.
func (d *document) where(field string) string {
	for of := field; ; of = of[:max(0, strings.LastIndexAny(of, ".["))] {
		if at, ok := d.positions[of]; ok || of == "" {
			return d.place(max(1, at[0]), max(1, at[1]), source.Clip(field, 200))
		}
	}
}

// required adds a fault for each of the fields that an entry lacks.
func (d *document) required(entry string, fields ...string) {
	for _, name := range fields {
		if !d.has(entry + "." + name) {
			d.wrong(entry+"."+name, "is required")
		}
	}
}

// between adds a fault for a whole number that is out of range.
func (d *document) between(field string, n, least, most int64) {
	if !d.faulty[field] && (n < least || n > most) {
		d.wrong(field, "is %d, want a whole number from %d to %d", n, least, most)
	}
}

// fill puts a value of the file into v; field is its path.
func (d *document) fill(n *source.Node, field string, v reflect.Value) {
	if !d.has(field) {
		d.positions[field] = [2]int{n.Line, n.Col}
	}
	if n.Kind == source.Null {
		return // as if the field were missing
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.fill(n, field, v.Elem())
	case reflect.Struct:
		d.object(n, field, v)
	case reflect.Map:
		d.byName(n, field, v)
	case reflect.Slice:
		d.items(n, field, v)
	case reflect.Interface:
		v.Set(reflect.ValueOf(n.Plain()))
	default:
		d.scalar(n, field, v)
	}
}

// object fills a struct by its yaml tags; other members are faults.
func (d *document) object(n *source.Node, field string, v reflect.Value) {
	byTag, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "" && name != "-" {
			byTag[name], names = v.Field(i), append(names, name)
		}
	}
	slices.Sort(names)
	if n.Kind != source.Object {
		d.wrong(field, "want an object of %s", strings.Join(names, ", "))
		return
	}
	for i := range n.Members {
		m := &n.Members[i]
		into, ok := byTag[m.Name]
		if at := d.member(m, field); ok {
			d.fill(m.Value, at, into)
		} else {
			d.wrong(at, "is not known; allowed: %s", strings.Join(names, ", "))
		}
	}
}

// member records the position of a member and returns its path.
func (d *document) member(m *source.Member, of string) string {
	at := strings.TrimPrefix(of+"."+source.Clip(m.Name, 80), ".")
	d.positions[at] = [2]int{m.Line, m.Col}
	return at
}

func (d *document) byName(n *source.Node, field string, v reflect.Value) {
	if n.Kind != source.Object {
		d.wrong(field, "want an object, by name")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := range n.Members {
		m := &n.Members[i]
		value := reflect.New(v.Type().Elem()).Elem()
		d.fill(m.Value, d.member(m, field), value)
		v.SetMapIndex(reflect.ValueOf(m.Name), value)
	}
}

func (d *document) items(n *source.Node, field string, v reflect.Value) {
	if n.Kind != source.Array {
		d.wrong(field, "is %s, want a list", shown(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		d.fill(item, fmt.Sprintf("%s[%d]", field, i), v.Index(i))
	}
}

// maxWhole bounds whole numbers: above it, JSON numbers cannot represent each of them.
const maxWhole = 1 << 53

func (d *document) scalar(n *source.Node, field string, v reflect.Value) {
	number := n.Kind == source.Number
	switch kind := v.Kind(); {
	case kind == reflect.String && n.Kind == source.String:
		v.SetString(n.Text)
	case kind == reflect.Bool && n.Kind == source.Bool:
		v.SetBool(n.Flag)
	case kind == reflect.Float64 && number:
		v.SetFloat(n.Num)
	case v.CanInt() && number && n.Num == math.Trunc(n.Num) && math.Abs(n.Num) <= maxWhole:
		v.SetInt(int64(n.Num))
	default:
		d.wrong(field, "is %s, want %s", shown(n), wanted[v.Kind()])
	}
}

// wanted describes the values that a field accepts.
var wanted = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Bool: "true or false", reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Int64: "a whole number",
}
