package pack

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// pinKey is the key of a tool's settings that pins the tool of an MCP server.
const pinKey = "mcp_digest"

// Pin returns the document of a pack with the given digests as mcp_digest of its tools. All other text stays
// unchanged. It returns an error if a digest cannot be written: the pack has no workflow, or the place is a YAML
// alias.
func Pin(p *Pack, digests map[string]string) ([]byte, error) {
	if p.Doc.Workflow == nil {
		return nil, errors.New("the pack has no workflow, and mcp_digest belongs to workflow.engine.x_pawl.tools")
	}
	src := p.Source
	want, err := tree(src)
	if err != nil {
		return nil, err
	}
	for _, tool := range slices.Sorted(maps.Keys(digests)) {
		path := []string{"workflow", "engine", "x_pawl", "tools", tool, pinKey}
		put(want, path, digests[tool])
		now, err := tree(src)
		if err != nil {
			return nil, err
		}
		src = edit(src, now, path, digests[tool])
	}
	got, err := tree(src)
	if err != nil || !reflect.DeepEqual(got.Plain(), want.Plain()) {
		return nil, errors.New("the document cannot be changed in place, because x_pawl is an alias or in an unusual form: write mcp_digest under workflow.engine.x_pawl.tools.TOOL yourself")
	}
	return src, nil
}

func tree(src []byte) (*source.Node, error) {
	limits, err := Limits{}.WithDefaults()
	if err != nil {
		return nil, err
	}
	limits.Bytes = max(limits.Bytes, len(src))
	root, fault := source.Read(src, limits, func(source.DuplicateName) {})
	if fault != nil {
		return nil, fault
	}
	return root, nil
}

// put sets the text at a path of a tree. It makes the objects of the path that do not exist.
func put(n *source.Node, path []string, text string) {
	for _, name := range path {
		next := n.Get(name)
		if next == nil {
			next = &source.Node{Kind: source.Object}
			n.Kind, n.Members = source.Object, append(n.Members, source.Member{Name: name, Value: next})
		}
		n = next
	}
	n.Kind, n.Text = source.String, text
}

// edit sets the text at a path of a document. n is the tree of the document. If edit does not know the form of the
// place, its result is wrong or cannot be read. The caller must check the result.
func edit(src []byte, n *source.Node, path []string, text string) []byte {
	for len(path) > 0 && n.Get(path[0]) != nil {
		n, path = n.Get(path[0]), path[1:]
	}
	at := offset(src, n.Line, n.Col)
	if len(path) == 0 { // it has another text
		if at < len(src) && (src[at] == '"' || src[at] == '\'') {
			at++
		}
		return splice(src, at, min(at+len(n.Text), len(src)), text)
	}
	plain := !bytes.HasPrefix(bytes.TrimSpace(src), []byte("{"))
	entry := strconv.Quote(text)
	for i, name := range slices.Backward(path) {
		entry = memberName(name, plain) + ": " + entry
		if i > 0 {
			entry = "{" + entry + "}"
		}
	}
	if at >= len(src) || src[at] != '{' { // a block of lines
		return splice(src, at, at, entry+"\n"+strings.Repeat(" ", max(0, n.Col-1)))
	}
	at++
	if len(n.Members) == 0 {
		return splice(src, at, at, entry)
	}
	gap := " "
	if first := offset(src, n.Members[0].Line, n.Members[0].Col); first >= at && len(bytes.TrimSpace(src[at:first])) == 0 {
		gap = string(src[at:first])
		return splice(src, at, first, gap+entry+","+orSpace(gap))
	}
	return splice(src, at, at, entry+","+gap)
}

// orSpace returns the white space to put before the next member.
func orSpace(gap string) string {
	if gap == "" {
		return " "
	}
	return gap
}

func splice(src []byte, from, to int, text string) []byte {
	return slices.Concat(src[:from], []byte(text), src[to:])
}

// plainName matches names that need no quotes in YAML.
var plainName = regexp.MustCompile(`^[a-z_]+[A-Za-z0-9_]*/?[A-Za-z0-9_./-]*$`)

// memberName returns a name in quotes, or without quotes if plain is set and YAML needs none.
func memberName(name string, plain bool) string {
	if plain && plainName.MatchString(name) && (strings.ContainsAny(name, "/_") || len(name) > 4) {
		return name
	}
	return strconv.Quote(name)
}

// offset converts a line and a column to an offset in bytes.
func offset(src []byte, line, col int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(src[at:], '\n')
		if n < 0 {
			return len(src)
		}
		at += n + 1
	}
	for ; col > 1 && at < len(src); col-- {
		_, n := utf8.DecodeRune(src[at:])
		at += n
	}
	return at
}

// Position returns the line and the column of the value at a JSON pointer. Both begin at 1.
func (p *Pack) Position(pointer string) (line, col int, err error) {
	root, err := tree(p.Source)
	if err != nil {
		return 0, 0, fmt.Errorf("pack: %w", err)
	}
	line, col = root.Position(pointer, false)
	return line, col, nil
}
