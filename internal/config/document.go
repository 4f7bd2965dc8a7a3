package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// document is a YAML or JSON file of the operator: the configuration file, or a file that is read again while the sidecar
// runs, for example limits, accounts or schedules. Every fault is reported with line and column, the path of the field
// ("accounts[2].window") and the allowed values. A faulty value is not stored, and the functions that read a file return
// its faults as an error.
type document struct {
	placed
	// positions are the positions of the file's fields, by their paths.
	positions map[string][2]int
	// faulty are the fields whose faults were added by wrong.
	faulty map[string]bool
}

// readDocument reads a file into a value: a struct with yaml tags, or a map of these structs. The parameter into is a
// pointer to it. The returned error says that the file cannot be read, is empty or has wrong syntax. All other faults of
// the content are collected in the document.
func readDocument(what, path string, into any) (*document, error) {
	raw, err := readTable(what, path)
	if err != nil {
		return nil, err
	}
	return parseDocument(path, raw, into)
}

// parseDocument reads the content of a file, as readDocument does.
func parseDocument(path string, raw []byte, into any) (*document, error) {
	d := &document{placed: placed{path: path}, positions: map[string][2]int{}, faulty: map[string]bool{}}
	root, f := source.Read(raw, fileLimits, func(twice source.DuplicateName) {
		d.at(twice.Line, twice.Col, pathOf(twice.Path), "is given twice")
	})
	if f != nil {
		return nil, &Error{Faults: []Fault{{Field: fmt.Sprintf("%s:%d:%d", path, f.Line, f.Col), Message: f.Msg}}}
	}
	d.fill(root, "", reflect.ValueOf(into).Elem())
	return d, nil
}

// pathOf returns a path of keys and indexes in the form that faults use, for example
// "accounts[2].window".
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

// has reports whether the file sets a field.
func (d *document) has(field string) bool {
	_, ok := d.positions[field]
	return ok
}

// wrong adds a fault of a field. The fault gets the position of the field or, if the field is missing, the position
// of the object that should contain it.
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

// fill puts a value of the file into v, and adds faults of wrong types; field is the path of the value in the file.
func (d *document) fill(n *source.Node, field string, v reflect.Value) {
	if !d.has(field) {
		d.positions[field] = [2]int{n.Line, n.Col}
	}
	if n.Kind == source.Null {
		return // v keeps its value, but has reports the field
	}
	if set := textForm(v); set != nil {
		d.text(n, field, set)
		return
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

// mostNames is the largest number of allowed names that a message lists. If there are more, it refers to a command that
// shows them.
const mostNames = 30

// unknownKey returns the message about a key that is not allowed. It names the allowed key that is probably meant.
func unknownKey(name string, allowed []string) string {
	text := "is not known; allowed: " + strings.Join(allowed, ", ")
	if len(allowed) > mostNames {
		text = "is not known; 'pawl serve --print-config' shows the allowed keys"
	}
	if meant := nearest.Word(name, allowed); meant != "" {
		text += "; did you mean " + meant + "?"
	}
	return text
}

// object fills a struct by its yaml tags; a member without such a tag is a fault.
func (d *document) object(n *source.Node, field string, v reflect.Value) {
	byTag, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
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
		switch at := d.member(m, field); {
		case ok:
			d.fill(m.Value, at, into)
		default:
			d.wrong(at, "%s", unknownKey(m.Name, names))
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

// textForm returns the function that reads a text into v, if the values of its type are written as texts: durations,
// sizes and addresses of databases. For other types it returns nil.
func textForm(v reflect.Value) func(text string) error {
	switch to := v.Addr().Interface().(type) {
	case *time.Duration:
		return func(text string) (err error) {
			*to, err = parseDuration(text)
			return err
		}
	case *Bytes:
		return to.Set
	case *dsn.URL:
		return to.Set
	}
	return nil
}

// parseDuration reads a duration. Its error shows the allowed form.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q %s", text, forms["duration"])
	}
	return d, nil
}

// text reads a value that the file writes as a text, for example a duration, and passes the text to set. A number is
// passed as its decimal digits.
func (d *document) text(n *source.Node, field string, set func(text string) error) {
	text := n.Text
	switch n.Kind {
	case source.String:
	case source.Number:
		text = strconv.FormatFloat(n.Num, 'f', -1, 64)
	default:
		d.wrong(field, "is %s, want a text", shown(n))
		return
	}
	if err := set(text); err != nil {
		d.wrong(field, "%s", err)
	}
}

// maxWhole limits whole numbers. Above it, a JSON number cannot represent every whole number.
const maxWhole = 1 << 53

// scalar stores a text, number or boolean of the file in v, or adds a fault if v has another type.
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
