package codegen

import "cmp"

// kind selects which fields of a [typ] are used.
type kind int

const (
	// anything means any JSON value.
	anything kind = iota
	// unknown means that the schema has a constraint that no type can express. It is written as the type for any JSON
	// value.
	unknown
	null
	boolean
	integer
	number
	text
	// octets means bytes. A value of an artifact can be bytes instead of JSON.
	octets
	literal
	list
	// dict means an object with any names, whose values all have the same type.
	dict
	object
	union
	named
)

// typ is a set of JSON values. It contains at least the values of the schema from which it was made.
type typ struct {
	kind kind
	// value is the value of a literal: a string, bool or int64.
	value any
	// elem is the type of the elements of a list or dict.
	elem *typ
	// fields are the fields of an object, by name.
	fields map[string]*field
	// required are the required names of an object. A name without a field has no effect.
	required map[string]bool
	// open means that the object may have other names, too. implied means that the schema has keywords for objects
	// but does not require that the value is an object.
	open, implied bool
	// of are the alternatives of a union. None of them is itself a union.
	of []*typ
	// def is the definition to which a named type refers.
	def *definition
}

// field is one property of an object.
type field struct {
	about string
	typ   *typ
}

// definition is a type that a schema refers to. The definition may refer to itself.
type definition struct {
	// path is the position of the definition in the tool's schema. The name of the type is made from it.
	path []string
	typ  *typ
	// nesting is the number of objects and lists around the definition when it was begun. open means that it is not complete yet.
	nesting int
	open    bool
}

var (
	anyType     = &typ{kind: anything}
	unknownType = &typ{kind: unknown}
	anyObject   = &typ{kind: dict, elem: anyType}
)

// isOptional reports whether an object may be without a field.
func (t *typ) isOptional(name string) bool { return !t.required[name] }

// resolved returns the type that a named type stands for. It returns nil if its definition is not complete yet.
func (t *typ) resolved() *typ {
	for t.kind == named {
		if t.def.open {
			return nil
		}
		t = t.def.typ
	}
	return t
}

// most limits the alternatives of one union. A union with more of them becomes unknown.
const most = 64

// unite returns the union of types.
func unite(types []*typ) *typ {
	var flat []*typ
	for _, t := range types {
		switch t.kind {
		case anything, unknown:
			return t
		case union:
			flat = append(flat, t.of...)
		default:
			flat = append(flat, t)
		}
	}
	var out []*typ
	for _, t := range flat {
		if !among(out, t) {
			out = append(out, t)
		}
	}
	switch {
	case len(out) == 0 || len(out) > most:
		return unknownType
	case len(out) == 1:
		return out[0]
	}
	return &typ{kind: union, of: out}
}

// among reports whether a list of types contains a simple type. The contents of objects, lists and unions are never
// compared.
func among(types []*typ, t *typ) bool {
	for _, other := range types {
		switch {
		case other == t:
			return true
		case other.kind == t.kind && t.kind >= null && t.kind <= literal && other.value == t.value:
			return true
		case other.kind == named && t.kind == named && other.def == t.def:
			return true
		}
	}
	return false
}

// meet returns a type that contains all values that have both types. It is the intersection or a larger type, for example if a type is
// unknown, or if the budget of work does not suffice.
func (r *reader) meet(a, b *typ) *typ {
	if r.spend(); r.exhausted() {
		return unknownType
	}
	switch {
	case a.kind == anything:
		return b
	case b.kind == anything:
		return a
	case a.kind == unknown:
		return opened(b)
	case b.kind == unknown:
		return opened(a)
	case a.kind == named || b.kind == named:
		return r.meetNamed(a, b)
	case a.kind == union:
		return r.meetEach(a.of, b)
	case b.kind == union:
		return r.meetEach(b.of, a)
	case isObject(a) && isObject(b):
		return r.meetObjects(a, b)
	case a.implied:
		return b
	case b.implied:
		return a
	}
	return narrower(a, b)
}

func (r *reader) meetNamed(a, b *typ) *typ {
	if a.kind == named && b.kind == named && a.def == b.def {
		return a
	}
	x, y := a.resolved(), b.resolved()
	if x == nil || y == nil {
		return unknownType
	}
	return r.meet(x, y)
}

func (r *reader) meetEach(members []*typ, b *typ) *typ {
	out := make([]*typ, len(members))
	for i, member := range members {
		out[i] = r.meet(member, b)
	}
	return unite(out)
}

func isObject(t *typ) bool { return t.kind == object || t.kind == dict }

// meetObjects returns an object with the fields of two objects.
func (r *reader) meetObjects(a, b *typ) *typ {
	if a.kind == dict && b.kind == dict {
		return &typ{kind: dict, elem: r.meet(a.elem, b.elem), open: a.open || b.open}
	}
	if a.kind == dict {
		a, b = b, a
	}
	if b.kind == dict {
		// The result is the object, without the constraint that the dict puts on other names. It keeps only the fact
		// that other names are allowed.
		out := *a
		out.open, out.implied = a.open || b.open || b.elem.kind != anything, false
		return &out
	}
	out := &typ{kind: object, fields: map[string]*field{}, required: map[string]bool{}}
	out.open, out.implied = a.open || b.open, a.implied && b.implied
	for _, from := range []*typ{a, b} {
		for name, f := range from.fields {
			if both := out.fields[name]; both != nil {
				f = &field{about: cmp.Or(both.about, f.about), typ: r.meet(both.typ, f.typ)}
			}
			out.fields[name] = f
		}
		for name := range from.required {
			out.required[name] = true
		}
	}
	return out
}

// opened returns a type for a schema with constraints that a type cannot express. Its objects may have any other names.
func opened(t *typ) *typ {
	switch t.kind {
	case object:
		out := *t
		out.open = true
		return &out
	case union:
		out := make([]*typ, len(t.of))
		for i, member := range t.of {
			out[i] = opened(member)
		}
		return unite(out)
	case named:
		if to := t.resolved(); to != nil && (isObject(to) || to.kind == union) {
			return opened(to)
		}
	}
	return t
}

// narrower returns the type with more constraints. If neither has more, it returns the first.
func narrower(a, b *typ) *typ {
	if b.kind == literal || b.kind == integer && a.kind == number || b.kind == list && a.kind == list && a.elem.kind == anything {
		return b
	}
	return a
}
