package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// order knows the order in which the schemas of the format list properties.
type order struct {
	root *source.Node
	defs map[string]*source.Node
}

// knownOrder reads the schemas.
func knownOrder() (*order, error) {
	o := &order{defs: map[string]*source.Node{}}
	newest, own, err := pack.SchemaSources()
	if err != nil {
		return nil, err
	}
	// The newest version of the format comes last: its root and its definitions replace those of the other file.
	for _, text := range [][]byte{own, newest} {
		root, fault := source.ParseJSON(text, func(source.DuplicateName) {})
		if fault != nil {
			return nil, fmt.Errorf("format: schema: %w", fault)
		}
		o.root = root
		for _, def := range root.Get("$defs").Members {
			o.defs[def.Name] = def.Value
		}
	}
	return o, nil
}

// shape contains what a schema knows about the members of an object or the items of a list.
type shape struct {
	names []string
	under map[string]*source.Node
	// otherMembers is the schema of members with any name. item is the schema of the items of a list.
	otherMembers, item *source.Node
}

// shapeOf collects the properties of a schema and of its alternatives, in their order.
func (o *order) shapeOf(schema *source.Node) shape {
	s := shape{under: map[string]*source.Node{}}
	o.collect(&s, schema)
	return s
}

// collect adds to the shape s the properties of a schema, in the order of the schema. It follows references and
// the alternatives oneOf, anyOf and allOf.
func (o *order) collect(s *shape, schema *source.Node) {
	if schema == nil || schema.Kind != source.Object {
		return
	}
	if ref := schema.Get("$ref"); ref != nil {
		o.collect(s, o.defs[strings.TrimPrefix(ref.Text, "#/$defs/")])
	}
	if properties := schema.Get("properties"); properties != nil {
		for _, m := range properties.Members {
			if s.under[m.Name] == nil {
				s.names = append(s.names, m.Name)
				s.under[m.Name] = m.Value
			}
		}
	}
	// The schema of engine does not list x_pawl, because it is a key of this product.
	if s.under["budget"] != nil && s.under["x_pawl"] == nil {
		s.names = append(s.names, "x_pawl")
		s.under["x_pawl"] = o.defs["XPawl"]
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf"} {
		if list := schema.Get(keyword); list != nil {
			for _, alternative := range list.Items {
				o.collect(s, alternative)
			}
		}
	}
	if other := schema.Get("additionalProperties"); other != nil && other.Kind == source.Object {
		s.otherMembers = other
	}
	if item := schema.Get("items"); item != nil {
		s.item = item
	}
}

// member returns the schema of a member. It returns nil if the format does not know the member.
func (s shape) member(name string) *source.Node {
	if known := s.under[name]; known != nil {
		return known
	}
	return s.otherMembers
}

// compare orders names. Names that the format knows come first, in its order. Other names follow in
// the order of the document.
func (s shape) compare(a, b string) int {
	at := func(name string) int {
		if i := slices.Index(s.names, name); i >= 0 {
			return i
		}
		return len(s.names)
	}
	return cmp.Compare(at(a), at(b))
}
