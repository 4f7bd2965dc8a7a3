package pack

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

// yamlReader converts the YAML tree to nodes, expanding aliases.
type yamlReader struct {
	limits Limits
	found  *findings
	// sizes are the extents of anchored collections.
	sizes map[*yaml.Node]extent
}

// readYAML reads one document; duplicate keys are reported to found.
func readYAML(src []byte, limits Limits, found *findings) (*node, *fault) {
	doc, f := parseYAML(src)
	if f != nil {
		return nil, f
	}
	r := &yamlReader{limits: limits, found: found, sizes: map[*yaml.Node]extent{}}
	if _, f := r.measure(doc, 1); f != nil {
		return nil, f
	}
	return r.value(doc, nil)
}

// parseYAML parses without expanding aliases. A parser that panics on foreign
// input must not take the process with it.
func parseYAML(src []byte) (root *yaml.Node, f *fault) {
	defer func() {
		if p := recover(); p != nil {
			f = &fault{code: ruleSyntax, line: 1, col: 1, msg: fmt.Sprintf("not valid YAML: the parser failed: %v", p)}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &fault{code: ruleRoot, line: 1, col: 1, msg: "the document is empty", hint: "A pack is an object with id, name, version, template_engine and prompts."}
		}
		return nil, yamlFault(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, &fault{code: ruleOneDoc, line: max(more.Line, 1), col: max(more.Column, 1),
			msg:  "the file holds several YAML documents; a file holds exactly one pack",
			hint: "Put each pack into a file of its own. Authoring resources have to be compiled to one pack first."}
	case !errors.Is(err, io.EOF):
		return nil, yamlFault(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &fault{code: ruleRoot, line: 1, col: 1, msg: "the document is empty"}
	}
	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlFault takes the line out of the parser's message.
func yamlFault(err error) *fault {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		if n, err := strconv.Atoi(msg[m[2]:m[3]]); err == nil && n > 0 {
			line = n
		}
		msg = msg[:m[0]] + msg[m[1]:]
	}
	return &fault{code: ruleSyntax, line: line, col: 1, msg: "not valid YAML: " + clip(msg, 300)}
}

// extent is how large a value is with its aliases expanded.
type extent struct {
	nodes, height int
	// open while the value is being measured: an alias to it is a cycle.
	open bool
}

// measure counts the values under n with aliases expanded and bounds them, their
// depth and length, without expanding anything: linear in the document's size.
func (r *yamlReader) measure(n *yaml.Node, depth int) (extent, *fault) {
	if n.Kind == yaml.AliasNode {
		return r.measureAlias(n, depth)
	}
	if len(n.Value) > r.limits.Scalar {
		return extent{}, r.fault(n, ruleScalar, fmt.Sprintf("a value of %d bytes; the limit for one string, number or key is %d", len(n.Value), r.limits.Scalar), "Split the text, or keep it outside of the pack.")
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

// measureAlias returns the size of what an alias stands for.
func (r *yamlReader) measureAlias(n *yaml.Node, depth int) (extent, *fault) {
	if n.Alias == nil {
		return extent{}, r.fault(n, ruleSyntax, "not valid YAML: unknown anchor "+quote(n.Value), "")
	}
	size, known := r.sizes[n.Alias]
	switch {
	case !known:
		size = extent{nodes: 1}
	case size.open:
		return extent{}, r.fault(n, ruleNotJSON, "the anchor "+quote(n.Value)+" contains itself", "A pack cannot hold itself; write the value out.")
	}
	if depth+size.height-1 > r.limits.Depth {
		return extent{}, r.tooDeep(n)
	}
	return size, nil
}

func (r *yamlReader) tooDeep(n *yaml.Node) *fault {
	return r.fault(n, ruleDepth, fmt.Sprintf("values nest more than %d deep (aliases expanded)", r.limits.Depth), "Flatten the document.")
}

func (r *yamlReader) fault(n *yaml.Node, code, msg, hint string) *fault {
	return &fault{code: code, line: max(n.Line, 1), col: max(n.Column, 1), msg: msg, hint: hint}
}

// value converts a measured tree.
func (r *yamlReader) value(y *yaml.Node, path []string) (*node, *fault) {
	src := y
	if y.Kind == yaml.AliasNode {
		src = y.Alias
	}
	n := &node{line: max(y.Line, 1), col: max(y.Column, 1)}
	if f := r.checkTag(src); f != nil {
		return nil, f
	}
	switch src.Kind {
	case yaml.MappingNode:
		return n, r.mapping(n, src, path)
	case yaml.SequenceNode:
		n.kind = arrayNode
		for i, c := range src.Content {
			item, f := r.value(c, append(path, index(i)))
			if f != nil {
				return nil, f
			}
			n.items = append(n.items, item)
		}
		return n, nil
	default:
		return n, r.scalar(n, src)
	}
}

func (r *yamlReader) mapping(n *node, src *yaml.Node, path []string) *fault {
	n.kind = objectNode
	names := make(map[string]bool, len(src.Content)/2)
	for i := 0; i+1 < len(src.Content); i += 2 {
		key := src.Content[i]
		name, f := r.key(key)
		if f != nil {
			return f
		}
		m := member{name: name, line: max(key.Line, 1), col: max(key.Column, 1)}
		if m.value, f = r.value(src.Content[i+1], append(path, name)); f != nil {
			return f
		}
		if names[name] {
			reportDuplicate(r.found, append(path, name), m.line, m.col)
			continue
		}
		names[name] = true
		n.members = append(n.members, m)
	}
	return nil
}

// key returns the name of a member: only strings have a place in JSON.
func (r *yamlReader) key(k *yaml.Node) (string, *fault) {
	src := k
	if k.Kind == yaml.AliasNode {
		src = k.Alias
	}
	var n node
	if src.Kind == yaml.ScalarNode {
		if f := r.scalar(&n, src); f != nil {
			return "", f
		}
	}
	switch {
	case src.Kind != yaml.ScalarNode:
		return "", r.fault(k, ruleNotJSON, "a key is a collection; JSON has only string keys", "Use a string as the key.")
	case n.kind == stringNode && src.Style == 0 && src.Value == "<<":
		return "", r.fault(k, ruleNotJSON, "merge keys (<<) are not part of YAML 1.2 and have no form in JSON", "Write the merged fields out, or use an alias for a whole value.")
	case n.kind != stringNode:
		return "", r.fault(k, ruleNotJSON, "the key "+quote(src.Value)+" is not a string", "Put the key in quotes.")
	}
	return n.text, nil
}

// checkTag refuses tags that JSON cannot express.
func (r *yamlReader) checkTag(n *yaml.Node) *fault {
	if n.Style&yaml.TaggedStyle == 0 {
		return nil
	}
	switch n.Tag {
	case "!", "!!str", "!!map", "!!seq", "!!int", "!!float", "!!bool", "!!null":
		return nil
	}
	return r.fault(n, ruleNotJSON, "the tag "+quote(n.Tag)+" has no form in JSON", "Remove the tag.")
}

var (
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	yamlNaN   = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
	yamlRadix = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
)

// scalar resolves a scalar by the core schema of YAML 1.2; quoted, block and
// !!str scalars are strings.
func (r *yamlReader) scalar(n *node, src *yaml.Node) *fault {
	quoted := src.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	tagged := src.Style&yaml.TaggedStyle != 0 && (src.Tag == "!!str" || src.Tag == "!")
	n.kind, n.text = stringNode, src.Value
	if quoted || tagged {
		return nil
	}
	switch v := src.Value; {
	case v == "" || v == "~" || v == "null" || v == "Null" || v == "NULL":
		n.kind, n.text = nullNode, ""
	case v == "true" || v == "True" || v == "TRUE":
		n.kind, n.text, n.flag = boolNode, "", true
	case v == "false" || v == "False" || v == "FALSE":
		n.kind, n.text = boolNode, ""
	case yamlNaN.MatchString(v):
		return r.fault(src, ruleNotJSON, quote(v)+" has no form in JSON", "Put it in quotes if it is text.")
	case yamlInt.MatchString(v) || yamlFloat.MatchString(v):
		return r.number(n, src, v)
	case yamlRadix.MatchString(v):
		u, err := strconv.ParseUint(v, 0, 64)
		if err != nil || u > maxInteger {
			return r.fault(src, ruleNumber, fmt.Sprintf("%s: %v", clip(v, 40), errInteger), "Write large numbers as strings.")
		}
		n.kind, n.text, n.num = numberNode, "", float64(u)
	}
	return nil
}

func (r *yamlReader) number(n *node, src *yaml.Node, lit string) *fault {
	num, err := parseNumber(lit)
	if err != nil {
		return r.fault(src, ruleNumber, fmt.Sprintf("%s: %v", clip(lit, 40), err), "Write large numbers as strings.")
	}
	n.kind, n.text, n.num = numberNode, "", num
	return nil
}
