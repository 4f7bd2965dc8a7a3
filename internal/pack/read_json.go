package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// jsonReader reads JSON into nodes with positions. Depth, size and node count
// were bounded by the scanner, so recursion is safe.
type jsonReader struct {
	src []byte
	dec *json.Decoder
	// off, line and col follow the decoder; they only move forward.
	off       int
	line, col int
	found     *findings
}

// readJSON reads one document; duplicate members are reported to found.
func readJSON(src []byte, found *findings) (*node, *fault) {
	r := &jsonReader{src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1, col: 1, found: found}
	r.dec.UseNumber()
	root, f := r.value(nil)
	if f != nil {
		return nil, f
	}
	r.skipTo(int(r.dec.InputOffset()))
	r.skipBlank()
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &fault{code: ruleOneDoc, line: r.line, col: r.col,
			msg:  "text follows the end of the document; a file holds exactly one pack",
			hint: "Put each pack into a file of its own."}
	}
	return root, nil
}

// next returns the next token and moves to its start.
func (r *jsonReader) next() (json.Token, *fault) {
	r.skipTo(int(r.dec.InputOffset()))
	r.skipBlank()
	tok, err := r.dec.Token()
	if err != nil {
		return nil, r.syntax(err)
	}
	return tok, nil
}

// value reads a value; path are the reference tokens that lead to it.
func (r *jsonReader) value(path []string) (*node, *fault) {
	tok, f := r.next()
	if f != nil {
		return nil, f
	}
	n := &node{line: r.line, col: r.col}
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return n, r.object(n, path)
		}
		return n, r.array(n, path)
	case string:
		n.kind, n.text = stringNode, v
		return n, r.surrogates()
	case json.Number:
		n.kind = numberNode
		num, err := parseNumber(v.String())
		if err != nil {
			return n, r.fault(ruleNumber, fmt.Sprintf("%s: %v", clip(v.String(), 40), err), "Write large numbers as strings.")
		}
		n.num = num
	case bool:
		n.kind, n.flag = boolNode, v
	}
	return n, nil
}

func (r *jsonReader) array(n *node, path []string) *fault {
	n.kind = arrayNode
	for r.dec.More() {
		item, f := r.value(append(path, index(len(n.items))))
		if f != nil {
			return f
		}
		n.items = append(n.items, item)
	}
	_, f := r.next()
	return f
}

func (r *jsonReader) object(n *node, path []string) *fault {
	n.kind = objectNode
	names := map[string]bool{}
	for r.dec.More() {
		tok, f := r.next()
		if f != nil {
			return f
		}
		name, ok := tok.(string)
		if !ok {
			return r.fault(ruleSyntax, "a member name must be a string", "")
		}
		if f := r.surrogates(); f != nil {
			return f
		}
		m := member{name: name, line: r.line, col: r.col}
		if m.value, f = r.value(append(path, name)); f != nil {
			return f
		}
		if names[name] {
			reportDuplicate(r.found, append(path, name), m.line, m.col)
			continue
		}
		names[name] = true
		n.members = append(n.members, m)
	}
	_, f := r.next()
	return f
}

// reportDuplicate files a name that an object has twice. For artifacts of a
// state this is a rule of RFC 0009.
func reportDuplicate(found *findings, path []string, line, col int) {
	code := ruleDuplicate
	if len(path) == 5 && path[0] == "workflow" && path[1] == "states" && path[3] == "artifacts" {
		code = "PP0009-3"
	}
	found.place(code, pointer(path...), line, col, "Remove or rename one of them.",
		"the name %s is given twice in one object", quote(path[len(path)-1]))
}

// surrogates refuses \u escapes that name half a character: they have no UTF-8
// form, hence no canonical one.
func (r *jsonReader) surrogates() *fault {
	raw := r.src[r.off:min(int(r.dec.InputOffset()), len(r.src))]
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if i+4 >= len(raw) || raw[i] != 'u' {
			continue
		}
		switch c := hex4(raw[i+1:]); {
		case c >= 0xDC00 && c <= 0xDFFF:
			return r.lone()
		case c >= 0xD800 && c <= 0xDBFF:
			low := raw[i+5:]
			if len(low) < 6 || low[0] != '\\' || low[1] != 'u' || hex4(low[2:])&0xFC00 != 0xDC00 {
				return r.lone()
			}
			i += 6
		}
		i += 4
	}
	return nil
}

func (r *jsonReader) lone() *fault {
	return r.fault(ruleNotJSON, "the string holds a lone surrogate escape, which is no character", "Write both halves of the pair, or the character itself.")
}

// hex4 reads four hexadecimal digits that the decoder has already accepted.
func hex4(b []byte) int {
	v := 0
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | int(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | int(c-'a'+10)
		case c >= 'A' && c <= 'F':
			v = v<<4 | int(c-'A'+10)
		}
	}
	return v
}

// syntax converts an error of the decoder. Its offsets are exact only for a
// whole document, which is therefore scanned once more.
func (r *jsonReader) syntax(err error) *fault {
	off, msg := r.off, err.Error()
	var whole json.RawMessage
	if se, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(r.src, &whole)); ok {
		off, msg = max(int(se.Offset)-1, 0), se.Error()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		off, msg = len(r.src), "the document ends in the middle of a value"
	}
	line, col := place(r.src, off)
	return &fault{code: ruleSyntax, line: line, col: col, msg: "not valid JSON: " + msg,
		hint: "A document that begins with { or [ is read as JSON."}
}

func (r *jsonReader) fault(code, msg, hint string) *fault {
	return &fault{code: code, line: r.line, col: r.col, msg: msg, hint: hint}
}

// skipTo moves the position to an offset.
func (r *jsonReader) skipTo(off int) {
	for r.off < off && r.off < len(r.src) {
		_, n := utf8.DecodeRune(r.src[r.off:])
		if r.src[r.off] == '\n' {
			r.line++
			r.col = 0
		}
		r.col++
		r.off += n
	}
}

// skipBlank moves to the start of the next token.
func (r *jsonReader) skipBlank() {
	for r.off < len(r.src) && (isBlank(r.src[r.off]) || r.src[r.off] == ',' || r.src[r.off] == ':') {
		r.skipTo(r.off + 1)
	}
}
