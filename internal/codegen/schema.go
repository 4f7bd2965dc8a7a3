package codegen

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// size limits the number of types and intersections that are made from the schema of one tool. Beyond this limit the type is any
// JSON value.
const size = 4000

// reader makes types from one compiled schema.
type reader struct {
	defs map[*jsonschema.Schema]*definition
	// order is the order in which definitions were found.
	order []*definition
	// nesting is the number of objects and lists around the schema that is being read.
	nesting int
	// left is the number of types and intersections that may still be made, see size.
	left int
}

func newReader() *reader {
	return &reader{defs: map[*jsonschema.Schema]*definition{}, left: size}
}

func (r *reader) spend()          { r.left-- }
func (r *reader) exhausted() bool { return r.left <= 0 }

// payload returns the type of a tool's arguments. They are always an object, even if the schema does not say so.
func (r *reader) payload(s *jsonschema.Schema, path []string) *typ {
	t := r.read(s, path)
	if whole := t.resolved(); whole != nil && whole.kind == object && whole.implied {
		whole.implied = false
	}
	return t
}

// read returns the type of the values that a schema accepts. A value must fulfil all keywords of the schema.
func (r *reader) read(s *jsonschema.Schema, path []string) *typ {
	if r.spend(); r.exhausted() {
		return unknownType
	}
	if s.Bool != nil {
		return anyType // if no value is valid, any type is correct
	}
	t := r.own(s, path)
	if s.Ref != nil {
		t = r.meet(t, r.refer(s.Ref, path))
	}
	for _, sub := range s.AllOf {
		t = r.meet(t, r.read(sub, path))
	}
	for _, choice := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		if len(choice) == 0 {
			continue
		}
		types := make([]*typ, len(choice))
		for i, sub := range choice {
			types[i] = r.meet(t, r.read(sub, path))
		}
		t = unite(types)
	}
	if s.If != nil {
		t = r.meet(t, unknownType)
	}
	return t
}

// refer returns the type to which a reference in a schema leads. If a reference leads back to itself without an
// object or list in between, its type is unknown.
func (r *reader) refer(s *jsonschema.Schema, path []string) *typ {
	def := r.defs[s]
	if def == nil {
		def = &definition{path: slices.Clone(path), nesting: r.nesting, open: true}
		r.defs[s] = def
		def.typ = settled(r.read(s, path))
		def.open = false
		r.order = append(r.order, def)
	}
	if def.open && def.nesting == r.nesting {
		return unknownType
	}
	return &typ{kind: named, def: def}
}

// own returns the type that follows from the schema's own keywords, without its references: the type of its listed
// values (const, enum), else its JSON types.
func (r *reader) own(s *jsonschema.Schema, path []string) *typ {
	if s.Const != nil {
		return valueType(*s.Const)
	}
	if s.Enum != nil {
		types := make([]*typ, len(s.Enum.Values))
		for i, value := range s.Enum.Values {
			types[i] = valueType(value)
		}
		return unite(types)
	}
	if s.Types == nil {
		if len(s.Properties) == 0 && len(s.Required) == 0 && !isCurious(s) {
			return anyType
		}
		t := r.object(s, path)
		if t.kind == dict {
			return anyType
		}
		// The schema names no JSON type. If it also names no property, the object must not become open (allow other
		// names), because another schema of an intersection may list the properties.
		t.implied, t.open = true, t.open && (len(s.Properties) > 0 || isCurious(s))
		return t
	}
	var types []*typ
	for _, name := range s.Types.ToStrings() {
		types = append(types, r.typed(name, s, path))
	}
	return unite(types)
}

// typed returns the type for one of the JSON types that a schema allows.
func (r *reader) typed(name string, s *jsonschema.Schema, path []string) *typ {
	switch name {
	case "null":
		return &typ{kind: null}
	case "boolean":
		return &typ{kind: boolean}
	case "integer":
		return &typ{kind: integer}
	case "number":
		return &typ{kind: number}
	case "string":
		return &typ{kind: text}
	case "array":
		return &typ{kind: list, elem: r.inside(items(s), append(path, "item"))}
	}
	return r.object(s, path)
}

// items returns the schema of all elements of a list. It returns nil if no single schema applies to all elements.
func items(s *jsonschema.Schema) *jsonschema.Schema {
	if each, ok := s.Items.(*jsonschema.Schema); ok {
		return each
	}
	if len(s.PrefixItems) > 0 {
		return nil
	}
	return s.Items2020
}

// object returns the type of the objects that a schema accepts.
func (r *reader) object(s *jsonschema.Schema, path []string) *typ {
	further, _ := s.AdditionalProperties.(*jsonschema.Schema)
	allowed, said := s.AdditionalProperties.(bool)
	open := isCurious(s) || further != nil || said && allowed
	if len(s.Properties) == 0 && len(s.Required) == 0 && !isCurious(s) && (open || !said) {
		if further != nil {
			return &typ{kind: dict, elem: r.inside(further, append(path, "value"))}
		}
		return &typ{kind: dict, elem: anyType, open: open}
	}
	t := &typ{kind: object, fields: map[string]*field{}, required: map[string]bool{}, open: open}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		sub := s.Properties[name]
		if sub.Bool != nil && !*sub.Bool {
			continue // this property must be absent
		}
		t.fields[name] = &field{about: sub.Description, typ: r.inside(sub, append(path, name))}
	}
	for _, name := range s.Required {
		t.required[name] = true
	}
	// A schema that only lists required names allows an object with any other names.
	t.open = t.open || len(s.Properties) == 0 && !said
	return t
}

// isCurious reports whether a schema restricts names that it does not list.
func isCurious(s *jsonschema.Schema) bool {
	if len(s.PatternProperties) > 0 || s.UnevaluatedProperties != nil || len(s.DependentSchemas) > 0 {
		return true
	}
	for _, dependency := range s.Dependencies {
		if _, is := dependency.(*jsonschema.Schema); is {
			return true
		}
	}
	return false
}

// inside reads the schema of a value that is inside an object or a list.
func (r *reader) inside(s *jsonschema.Schema, path []string) *typ {
	if s == nil {
		return anyType
	}
	r.nesting++
	t := settled(r.read(s, slices.Clone(path)))
	r.nesting--
	return t
}

// settled returns a type to which no further constraint of a schema will be added. A type that the
// schema only implied becomes any JSON value.
func settled(t *typ) *typ {
	switch {
	case t.implied, t.kind == unknown:
		return anyType
	case t.kind == union:
		out := make([]*typ, len(t.of))
		for i, member := range t.of {
			out[i] = settled(member)
		}
		return unite(out)
	}
	return t
}

// valueType returns the literal type of one value. If there is no literal type for it, it returns the general type of such
// values.
func valueType(value any) *typ {
	switch v := value.(type) {
	case nil:
		return &typ{kind: null}
	case bool, string:
		return &typ{kind: literal, value: v}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return &typ{kind: literal, value: n}
		}
		return &typ{kind: number}
	case []any:
		return &typ{kind: list, elem: anyType}
	case map[string]any:
		return anyObject
	}
	return unknownType
}
