package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlReader converts the YAML tree to nodes. It expands aliases.
type yamlReader struct {
	limits      Limits
	onDuplicate func(DuplicateName)
	// sizes are the sizes of anchored collections.
	sizes map[*yaml.Node]extent
}

// readYAML reads one document.
func readYAML(src []byte, limits Limits, twice func(DuplicateName)) (*Node, *Fault) {
	doc, f := parseYAML(src)
	if f != nil {
		return nil, f
	}
	r := &yamlReader{limits: limits, onDuplicate: twice, sizes: map[*yaml.Node]extent{}}
	if _, f := r.measure(doc, 1); f != nil {
		return nil, f
	}
	root, f := r.value(doc, nil)
	if f != nil {
		return nil, f
	}
	return root, nil
}

// parseYAML parses a document without expanding aliases. It recovers from a panic of the parser, so
// that a document cannot end the process.
func parseYAML(src []byte) (root *yaml.Node, f *Fault) {
	defer func() {
		if p := recover(); p != nil {
			f = &Fault{Code: CodeSyntax, Line: 1, Col: 1, Msg: fmt.Sprintf("not valid YAML: the parser failed: %v", p)}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Fault{Code: CodeRoot, Line: 1, Col: 1, Msg: "the document is empty", Hint: "A pack is an object with id, name, version, template_engine and prompts."}
		}
		return nil, yamlFault(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, &Fault{Code: CodeOneDoc, Line: max(more.Line, 1), Col: max(more.Column, 1),
			Msg:  "the file holds several YAML documents; a file holds exactly one pack",
			Hint: "Put each pack into a file of its own. Authoring resources have to be compiled to one pack first."}
	case !errors.Is(err, io.EOF):
		return nil, yamlFault(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &Fault{Code: CodeRoot, Line: 1, Col: 1, Msg: "the document is empty"}
	}
	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlFault converts an error of the parser to a fault. The line is taken from the parser's message.
func yamlFault(err error) *Fault {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		if n, err := strconv.Atoi(msg[m[2]:m[3]]); err == nil && n > 0 {
			line = n
		}
		msg = msg[:m[0]] + msg[m[1]:]
	}
	return &Fault{Code: CodeSyntax, Line: line, Col: 1, Msg: "not valid YAML: " + Clip(msg, 300)}
}

// extent is the size of a value with its aliases expanded.
type extent struct {
	nodes, height int
	// open is true while the value is being measured. An alias to a value that is open forms a cycle.
	open bool
}

// measure counts the values under n with aliases expanded, and checks their number, depth and length.
// It does not actually expand the aliases, so its time is linear in the size of the document.
func (r *yamlReader) measure(n *yaml.Node, depth int) (extent, *Fault) {
	if n.Kind == yaml.AliasNode {
		return r.measureAlias(n, depth)
	}
	if len(n.Value) > r.limits.Scalar {
		return extent{}, r.fault(n, CodeScalar, fmt.Sprintf("a value of %d bytes; the limit for one string, number or key is %d", len(n.Value), r.limits.Scalar), "Split the text, or keep it outside of the pack.")
	}
	if n.Kind == yaml.ScalarNode {
		return extent{nodes: 1}, nil
	}
	if depth > r.limits.Depth {
		return extent{}, r.tooDeep(n)
	}
	if n.Anchor != "" {
		r.sizes[n] = extent{open: true}
	}
	sum := extent{nodes: 1, height: 1}
	for i, c := range n.Content {
		sub, f := r.measure(c, depth+1)
		if f != nil {
			return extent{}, f
		}
		sum.height = max(sum.height, sub.height+1)
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		if sum.nodes += sub.nodes; sum.nodes > r.limits.Nodes {
			return extent{}, tooMany(n.Line, n.Column, r.limits.Nodes)
		}
	}
	if n.Anchor != "" {
		r.sizes[n] = sum
	}
	return sum, nil
}

// measureAlias returns the size of the value that an alias refers to.
func (r *yamlReader) measureAlias(n *yaml.Node, depth int) (extent, *Fault) {
	if n.Alias == nil {
		return extent{}, r.fault(n, CodeSyntax, "not valid YAML: unknown anchor "+quoted(n.Value), "")
	}
	size, known := r.sizes[n.Alias]
	switch {
	case !known:
		// sizes contains only collections, so the value is a scalar.
		size = extent{nodes: 1}
	case size.open:
		return extent{}, r.fault(n, CodeNotJSON, "the anchor "+quoted(n.Value)+" contains itself", "A pack cannot hold itself; write the value out.")
	}
	if depth+size.height-1 > r.limits.Depth {
		return extent{}, r.tooDeep(n)
	}
	return size, nil
}

func (r *yamlReader) tooDeep(n *yaml.Node) *Fault {
	return r.fault(n, CodeDepth, fmt.Sprintf("values nest more than %d deep (aliases expanded)", r.limits.Depth), "Flatten the document.")
}

func (r *yamlReader) fault(n *yaml.Node, code, msg, hint string) *Fault {
	return &Fault{Code: code, Line: max(n.Line, 1), Col: max(n.Column, 1), Msg: msg, Hint: hint}
}

// value converts a measured YAML tree to nodes.
func (r *yamlReader) value(y *yaml.Node, path []string) (*Node, *Fault) {
	src := y
	if y.Kind == yaml.AliasNode {
		src = y.Alias
	}
	n := &Node{Line: max(y.Line, 1), Col: max(y.Column, 1)}
	if f := r.checkTag(src); f != nil {
		return nil, f
	}
	switch src.Kind {
	case yaml.MappingNode:
		return n, r.mapping(n, src, path)
	case yaml.SequenceNode:
		n.Kind = Array
		for i, c := range src.Content {
			item, f := r.value(c, append(path, strconv.Itoa(i)))
			if f != nil {
				return nil, f
			}
			n.Items = append(n.Items, item)
		}
		return n, nil
	default:
		return n, r.scalar(n, src)
	}
}

// mapping reads a YAML mapping as an object into n.
func (r *yamlReader) mapping(n *Node, src *yaml.Node, path []string) *Fault {
	n.Kind = Object
	names := make(map[string]bool, len(src.Content)/2)
	for i := 0; i+1 < len(src.Content); i += 2 {
		key := src.Content[i]
		name, f := r.key(key)
		if f != nil {
			return f
		}
		m := Member{Name: name, Line: max(key.Line, 1), Col: max(key.Column, 1)}
		if m.Value, f = r.value(src.Content[i+1], append(path, name)); f != nil {
			return f
		}
		if names[name] {
			r.onDuplicate(DuplicateName{Path: append(path, name), Line: m.Line, Col: m.Col})
			continue
		}
		names[name] = true
		n.Members = append(n.Members, m)
	}
	return nil
}

// key returns the name of a member. The name must be a string, because JSON allows only strings.
func (r *yamlReader) key(k *yaml.Node) (string, *Fault) {
	src := k
	if k.Kind == yaml.AliasNode {
		src = k.Alias
	}
	var n Node
	if src.Kind == yaml.ScalarNode {
		if f := r.scalar(&n, src); f != nil {
			return "", f
		}
	}
	switch {
	case src.Kind != yaml.ScalarNode:
		return "", r.fault(k, CodeNotJSON, "a key is a collection; JSON has only string keys", "Use a string as the key.")
	case n.Kind == String && src.Style == 0 && src.Value == "<<":
		return "", r.fault(k, CodeNotJSON, "merge keys (<<) are not part of YAML 1.2 and have no form in JSON", "Write the merged fields out, or use an alias for a whole value.")
	case n.Kind != String:
		return "", r.fault(k, CodeNotJSON, "the key "+quoted(src.Value)+" is not a string", "Put the key in quotes.")
	}
	return n.Text, nil
}

// checkTag refuses tags whose values JSON cannot express.
func (r *yamlReader) checkTag(n *yaml.Node) *Fault {
	if n.Style&yaml.TaggedStyle == 0 {
		return nil
	}
	switch n.Tag {
	case "!", "!!str", "!!map", "!!seq", "!!int", "!!float", "!!bool", "!!null":
		return nil
	}
	return r.fault(n, CodeNotJSON, "the tag "+quoted(n.Tag)+" has no form in JSON", "Remove the tag.")
}

var (
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	yamlNaN   = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
	yamlRadix = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
)

// scalar converts a scalar according to the core schema of YAML 1.2. Quoted scalars, block scalars and !!str scalars are strings. Other
// tags do not change the kind.
func (r *yamlReader) scalar(n *Node, src *yaml.Node) *Fault {
	plain := src.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	tagged := src.Style&yaml.TaggedStyle != 0 && (src.Tag == "!!str" || src.Tag == "!")
	n.Kind, n.Text = String, src.Value
	if !plain || tagged {
		return nil
	}
	switch v := src.Value; {
	case v == "" || v == "~" || v == "null" || v == "Null" || v == "NULL":
		n.Kind, n.Text = Null, ""
	case v == "true" || v == "True" || v == "TRUE":
		n.Kind, n.Text, n.Flag = Bool, "", true
	case v == "false" || v == "False" || v == "FALSE":
		n.Kind, n.Text = Bool, ""
	case yamlNaN.MatchString(v):
		return r.fault(src, CodeNotJSON, quoted(v)+" has no form in JSON", "Put it in quotes if it is text.")
	case yamlInt.MatchString(v) || yamlFloat.MatchString(v):
		return r.number(n, src, v)
	case yamlRadix.MatchString(v):
		u, err := strconv.ParseUint(v, 0, 64)
		if err != nil || u > maxInteger {
			return r.fault(src, CodeNumber, fmt.Sprintf("%s: %v", Clip(v, 40), errInteger), "Write such numbers as strings.")
		}
		n.Kind, n.Text, n.Num = Number, "", float64(u)
	}
	return nil
}

func (r *yamlReader) number(n *Node, src *yaml.Node, lit string) *Fault {
	num, err := parseNumber(lit)
	if err != nil {
		return r.fault(src, CodeNumber, fmt.Sprintf("%s: %v", Clip(lit, 40), err), "Write such numbers as strings.")
	}
	n.Kind, n.Text, n.Num = Number, "", num
	return nil
}
