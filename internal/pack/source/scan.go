package source

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// scanner is the state of the linear pass that checks the limits of a document before a parser reads it. The
// depth limit bounds its memory.
type scanner struct {
	src    []byte
	limits Limits
	nodes  int
}

// scanBytes makes the checks that do not depend on the format.
func scanBytes(src []byte, limits Limits) *Fault {
	if len(src) > limits.Bytes {
		return &Fault{Code: CodeSize, Line: 1, Col: 1,
			Msg:  fmt.Sprintf("the document has %d bytes; the limit is %d", len(src), limits.Bytes),
			Hint: "Move bulk data out of the pack and refer to it."}
	}
	if utf8.Valid(src) {
		return nil
	}
	off := 0
	for off < len(src) {
		r, n := utf8.DecodeRune(src[off:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		off += n
	}
	line, col := lineAndColumn(src, off)
	return &Fault{Code: CodeUTF8, Line: line, Col: col,
		Msg:  fmt.Sprintf("byte 0x%02x at offset %d is not valid UTF-8", src[off], off),
		Hint: "Save the file as UTF-8."}
}

// lineAndColumn converts a byte offset to a line and a column. Both begin at 1. The column counts characters.
func lineAndColumn(src []byte, off int) (line, col int) {
	off = min(off, len(src))
	start := bytes.LastIndexByte(src[:off], '\n') + 1
	return bytes.Count(src[:start], []byte{'\n'}) + 1, utf8.RuneCount(src[start:off]) + 1
}

func (s *scanner) tooDeep(off, depth int) *Fault {
	if depth <= s.limits.Depth {
		return nil
	}
	line, col := lineAndColumn(s.src, off)
	return &Fault{Code: CodeDepth, Line: line, Col: col,
		Msg:  fmt.Sprintf("values nest more than %d deep", s.limits.Depth),
		Hint: "Flatten the document."}
}

func (s *scanner) tooLong(off, n int) *Fault {
	if n <= s.limits.Scalar {
		return nil
	}
	line, col := lineAndColumn(s.src, off)
	return &Fault{Code: CodeScalar, Line: line, Col: col,
		Msg:  fmt.Sprintf("a value of %d bytes; the limit for one string, number or key is %d", n, s.limits.Scalar),
		Hint: "Split the text, or keep it outside of the pack."}
}

// countValue counts the value at off.
func (s *scanner) countValue(off int) *Fault {
	s.nodes++
	if s.nodes <= s.limits.Nodes {
		return nil
	}
	line, col := lineAndColumn(s.src, off)
	return tooMany(line, col, s.limits.Nodes)
}

func tooMany(line, col, limit int) *Fault {
	return &Fault{Code: CodeNodes, Line: line, Col: col,
		Msg:  fmt.Sprintf("the document holds more than %d values (aliases expanded)", limit),
		Hint: "Keep bulk data outside of the pack."}
}

// scanJSON checks the limits of a JSON document. Every child of an array or object follows a bracket or a comma, so the values can be
// counted without a parser. An empty array or object counts as if it had one child.
func (s *scanner) scanJSON() *Fault {
	if f := s.countValue(0); f != nil {
		return f
	}
	depth := 0
	for i := 0; i < len(s.src); {
		switch c := s.src[i]; c {
		case '"':
			end := jsonStringEnd(s.src, i)
			if f := s.tooLong(i, end-i-2); f != nil {
				return f
			}
			i = end
			continue
		case '[', '{':
			depth++
			if f := s.tooDeep(i, depth); f != nil {
				return f
			}
			if f := s.countValue(i); f != nil {
				return f
			}
		case ']', '}':
			depth--
		case ',':
			if f := s.countValue(i); f != nil {
				return f
			}
		default:
			end := jsonWordEnd(s.src, i)
			if f := s.tooLong(i, end-i); f != nil {
				return f
			}
			i = max(i, end-1)
		}
		i++
	}
	return nil
}

// jsonStringEnd returns the offset after the string that starts at i.
func jsonStringEnd(src []byte, i int) int {
	for i++; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(src)
}

// jsonWordEnd returns the offset after a sequence of characters that can be part of numbers and
// literals.
func jsonWordEnd(src []byte, i int) int {
	for i < len(src) {
		c := src[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '-' || c == '.' {
			i++
			continue
		}
		break
	}
	return i
}
