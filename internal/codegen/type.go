package codegen

import "cmp"

// kind says what a [typ] is.
type kind int

const (
	// anything is no constraint at all.
	anything kind = iota
	// unknown is a constraint that no type can say; in the end it is anything.
	unknown
	null
	boolean
	integer
	number
	text
	// octets are bytes, which are no JSON: the value of an artifact.
	octets
	literal
	list
	// dict is an object with any names, whose values are all of one type.
	dict
	object
	union
	named
)

// typ is a set of JSON values: at least those of the schema that it was made of.
type typ struct {
	kind kind
	// value of a literal: a string, bool, int64 or nil.
	value any
	// elem of a list or dict.
	elem *typ
	// fields of an object, by name.
	fields map[string]*field
	// required names of an object; those without a field count nowhere.
	required map[string]bool
	// open objects have other names too; implied ones are no claim to be an object.
	open, implied bool
	// of a union: what it consists of, none of them a union.
	of []*typ
	// def is what a named one stands for.
	def *definition
}

// field is one property of an object.
type field struct {
	about string
	typ   *typ
}

// definition is a type that a schema refers to, perhaps from within itself.
type definition struct {
	// path is where it is from the tool on, for its name.
	path []string
	typ  *typ
	// nesting is how deep in objects and lists it was begun; open: it is not done.
	nesting int
	open    bool
}

var (
	anyType     = &typ{kind: anything}
	unknownType = &typ{kind: unknown}
	anyObject   = &typ{kind: dict, elem: anyType}
)

// isOptional says whether an object may be without a field.
func (t *typ) isOptional(name string) bool { return !t.required[name] }

// resolved follows names; nil: it leads to one that is not done.
func (t *typ) resolved() *typ {
	for t.kind == named {
		if t.def.open {
			return nil
		}
		t = t.def.typ
	}
	return t
}

// most bounds the members of one union; a wider one is anything.
const most = 64

// unite is what is in any of some types.
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

// among says whether plain types are there already; objects are never compared.
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

// meet is what is in both of two types, or more than that. The budget bounds how much is
// made of it.
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

// meetObjects joins the fields of two objects.
func (r *reader) meetObjects(a, b *typ) *typ {
	if a.kind == dict && b.kind == dict {
		return &typ{kind: dict, elem: r.meet(a.elem, b.elem), open: a.open || b.open}
	}
	if a.kind == dict {
		a, b = b, a
	}
	if b.kind == dict {
		// What is said of further names is lost, but not that there may be some.
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

// opened is a type of which more is said than can be written: its objects may have any
// other names.
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

// narrower is the one of two types that says more; where neither does, the first.
func narrower(a, b *typ) *typ {
	if b.kind == literal || b.kind == integer && a.kind == number || b.kind == list && a.kind == list && a.elem.kind == anything {
		return b
	}
	return a
}
