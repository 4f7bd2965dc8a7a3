package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// jsonReader reads JSON into nodes with positions. The scanner has already bounded the depth, the size
// and the number of nodes, so recursion is safe.
type jsonReader struct {
	src []byte
	dec *json.Decoder
	// off, line and col are the position of the decoder. They only move forward.
	off         int
	line, col   int
	onDuplicate func(DuplicateName)
}

// ParseJSON parses one document that is within the limits.
func ParseJSON(src []byte, twice func(DuplicateName)) (*Node, *Fault) {
	r := &jsonReader{src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1, col: 1, onDuplicate: twice}
	r.dec.UseNumber()
	root, f := r.value(nil)
	if f != nil {
		return nil, f
	}
	r.skipTo(int(r.dec.InputOffset()))
	r.skipBlank()
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &Fault{Code: CodeOneDoc, Line: r.line, Col: r.col,
			Msg:  "text follows the end of the document; a file holds exactly one pack",
			Hint: "Put each pack into a file of its own."}
	}
	return root, nil
}

// next returns the next token and moves to its start.
func (r *jsonReader) next() (json.Token, *Fault) {
	r.skipTo(int(r.dec.InputOffset()))
	r.skipBlank()
	tok, err := r.dec.Token()
	if err != nil {
		return nil, r.syntax(err)
	}
	return tok, nil
}

// value reads a value. path contains the reference tokens that lead to the value.
func (r *jsonReader) value(path []string) (*Node, *Fault) {
	tok, f := r.next()
	if f != nil {
		return nil, f
	}
	n := &Node{Line: r.line, Col: r.col}
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return n, r.object(n, path)
		}
		return n, r.array(n, path)
	case string:
		n.Kind, n.Text = String, v
		return n, r.surrogates()
	case json.Number:
		n.Kind = Number
		num, err := parseNumber(v.String())
		if err != nil {
			return n, r.fault(CodeNumber, fmt.Sprintf("%s: %v", Clip(v.String(), 40), err), "Write such numbers as strings.")
		}
		n.Num = num
	case bool:
		n.Kind, n.Flag = Bool, v
	}
	return n, nil
}

func (r *jsonReader) array(n *Node, path []string) *Fault {
	n.Kind = Array
	for r.dec.More() {
		item, f := r.value(append(path, strconv.Itoa(len(n.Items))))
		if f != nil {
			return f
		}
		n.Items = append(n.Items, item)
	}
	_, f := r.next()
	return f
}

// object reads the members of an object into n, after its opening brace was read.
func (r *jsonReader) object(n *Node, path []string) *Fault {
	n.Kind = Object
	names := map[string]bool{}
	for r.dec.More() {
		tok, f := r.next()
		if f != nil {
			return f
		}
		name, ok := tok.(string)
		if !ok {
			return r.fault(CodeSyntax, "a member name must be a string", "")
		}
		if f := r.surrogates(); f != nil {
			return f
		}
		m := Member{Name: name, Line: r.line, Col: r.col}
		if m.Value, f = r.value(append(path, name)); f != nil {
			return f
		}
		if names[name] {
			r.onDuplicate(DuplicateName{Path: append(path, name), Line: m.Line, Col: m.Col})
			continue
		}
		names[name] = true
		n.Members = append(n.Members, m)
	}
	_, f := r.next()
	return f
}

// surrogates returns a fault for a \u escape that is half of a character. Such a half has no UTF-8 form
// and therefore no canonical form.
func (r *jsonReader) surrogates() *Fault {
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

func (r *jsonReader) lone() *Fault {
	return r.fault(CodeNotJSON, "the string holds a lone surrogate escape, which is no character", "Write both halves of the pair, or the character itself.")
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

// syntax converts an error of the decoder to a fault. The offsets of errors are exact only if a whole
// document is scanned, so syntax scans the document once more.
func (r *jsonReader) syntax(err error) *Fault {
	off, msg := r.off, err.Error()
	var whole json.RawMessage
	if se, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(r.src, &whole)); ok {
		off, msg = max(int(se.Offset)-1, 0), se.Error()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		off, msg = len(r.src), "the document ends in the middle of a value"
	}
	line, col := lineAndColumn(r.src, off)
	return &Fault{Code: CodeSyntax, Line: line, Col: col, Msg: "not valid JSON: " + msg,
		Hint: "A document that begins with { or [ is read as JSON."}
}

func (r *jsonReader) fault(code, msg, hint string) *Fault {
	return &Fault{Code: code, Line: r.line, Col: r.col, Msg: msg, Hint: hint}
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
