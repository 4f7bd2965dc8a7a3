package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// These are limits of the JSON that is read. The caller limits the size of the text.
const (
	// MaxDepth limits the nesting of values. The outermost one is counted, and so is a text or number in the
	// innermost array or object.
	MaxDepth = 128
	// MaxNumber limits the length of a number in the text, in bytes.
	MaxNumber = 256
	// MaxExponent limits the absolute value of the exponent of a number in the text.
	MaxExponent = 999
)

// Fault describes the first fault in a JSON text.
type Fault struct {
	// At is the JSON pointer (RFC 6901) of the value with the fault. "" means the whole text.
	At string
	// Msg describes the fault.
	Msg string
}

func (f *Fault) Error() string {
	if f.At == "" {
		return f.Msg
	}
	return f.At + ": " + f.Msg
}

// under adds the name or index of the enclosing value to the front of the pointer, and returns the fault.
func (f *Fault) under(token string) *Fault {
	f.At = "/" + strings.ReplaceAll(strings.ReplaceAll(clip(token), "~", "~0"), "/", "~1") + f.At
	return f
}

// maxShown limits how much of a text a fault repeats, in bytes.
const maxShown = 64

func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}

// Check returns an error if a text is not exactly one JSON value, or if two readers could decode it differently. The
// error is a [*Fault].
func Check(raw []byte) error {
	return check(reader{src: raw})
}

// CheckLenient does the same as [Check], but accepts what models may write: half of a surrogate pair, and
// bytes that are not UTF-8. Readers see U+FFFD instead of them.
func CheckLenient(raw []byte) error {
	return check(reader{src: raw, odd: true})
}

func check(r reader) error {
	r.blank()
	f := r.value(1)
	if f == nil {
		if r.blank(); r.at < len(r.src) {
			f = r.fault("text follows the value")
		}
	}
	if f != nil {
		return f
	}
	return nil
}

// Valid reports whether [Check] accepts a text.
func Valid(raw []byte) bool { return Check(raw) == nil }

// reader is a JSON text and the position in it.
type reader struct {
	src []byte
	at  int
	// odd means that texts may contain half of a surrogate pair and bytes that are not UTF-8.
	odd bool
	// keys are the member names of the objects that are being read. The names of the innermost object
	// come last.
	keys [][]byte
}

func (r *reader) fault(format string, args ...any) *Fault {
	return &Fault{Msg: fmt.Sprintf(format, args...) + fmt.Sprintf(" (at byte %d)", r.at)}
}

func (r *reader) blank() {
	for r.at < len(r.src) && (r.src[r.at] == ' ' || r.src[r.at] == '\t' || r.src[r.at] == '\r' || r.src[r.at] == '\n') {
		r.at++
	}
}

// next skips white space and returns the next byte, or 0 at the end of the text.
func (r *reader) next() byte {
	r.blank()
	if r.at < len(r.src) {
		return r.src[r.at]
	}
	return 0
}

// value reads one value, and white space before it.
func (r *reader) value(depth int) *Fault {
	if depth > MaxDepth {
		return r.fault("values nest more than %d deep", MaxDepth)
	}
	switch c := r.next(); {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case c == '"':
		_, f := r.text()
		return f
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(r.src[r.at:], []byte(word)) {
			r.at += len(word)
			return nil
		}
	}
	if r.at >= len(r.src) {
		return r.fault("the text ends where a value is wanted")
	}
	return r.fault("want a value")
}

// array checks an array, from its opening bracket to its closing bracket.
func (r *reader) array(depth int) *Fault {
	r.at++
	if r.next() == ']' {
		r.at++
		return nil
	}
	for i := 0; ; i++ {
		if f := r.value(depth + 1); f != nil {
			return f.under(strconv.Itoa(i))
		}
		if done, f := r.more(']'); done || f != nil {
			return f
		}
	}
}

// more reads the comma or the closing bracket after an item. done reports whether it was the closing
// bracket.
func (r *reader) more(end byte) (done bool, f *Fault) {
	switch r.next() {
	case end:
		r.at++
		return true, nil
	case ',':
		r.at++
		return false, nil
	}
	return false, r.fault("want a comma or %q", string(end))
}

// object checks an object, from its opening brace to its closing brace. No two members may have the same name.
func (r *reader) object(depth int) *Fault {
	r.at++
	names := members{base: len(r.keys)}
	defer func() { r.keys = r.keys[:names.base] }()
	if r.next() == '}' {
		r.at++
		return nil
	}
	for {
		if r.next() != '"' {
			return r.fault("want the name of a member, in quotes")
		}
		name, f := r.text()
		if f != nil {
			return f
		}
		if names.has(r.keys, name) {
			return r.fault("the member is there twice").under(string(name))
		}
		r.keys = append(r.keys, name)
		if r.next() != ':' {
			return r.fault("want a colon").under(string(name))
		}
		r.at++
		if f := r.value(depth + 1); f != nil {
			return f.under(string(name))
		}
		if done, f := r.more('}'); done || f != nil {
			return f
		}
	}
}

// members are the names of one object. They are the part of reader.keys that begins at base. An object
// with many names has them also in a map, for a quick search.
type members struct {
	base int
	many map[string]bool
}

// fewMembers are searched one by one.
const fewMembers = 16

// has reports whether the object already has the name. It adds the name to the map if there is one. The caller
// adds it to keys.
func (m *members) has(keys [][]byte, name []byte) bool {
	own := keys[m.base:]
	if len(own) < fewMembers {
		for _, key := range own {
			if bytes.Equal(key, name) {
				return true
			}
		}
		return false
	}
	if m.many == nil {
		m.many = make(map[string]bool, 2*fewMembers)
		for _, key := range own {
			m.many[string(key)] = true
		}
	}
	there := m.many[string(name)]
	m.many[string(name)] = true
	return there
}

// text reads a string and returns its value.
func (r *reader) text() ([]byte, *Fault) {
	begin, escaped := r.at, false
	r.at++
	for r.at < len(r.src) {
		switch c := r.src[r.at]; {
		case c == '"':
			r.at++
			return unquote(r.src[begin:r.at], escaped), nil
		case c == '\\':
			escaped = true
			if f := r.escape(); f != nil {
				return nil, f
			}
		case c < 0x20:
			return nil, r.fault("a text has a control character that is not escaped")
		case c < utf8.RuneSelf:
			r.at++
		default:
			char, n := utf8.DecodeRune(r.src[r.at:])
			if char == utf8.RuneError && n == 1 && !r.odd {
				return nil, r.fault("a text is not UTF-8")
			}
			r.at += n
		}
	}
	return nil, r.fault("the text ends within a string")
}

// unquote returns the value of a string that was already read.
func unquote(quoted []byte, escaped bool) []byte {
	if !escaped {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it was checked
	return []byte(s)
}

// escape reads one escape sequence. Two escapes that form a surrogate pair are read together.
func (r *reader) escape() *Fault {
	if r.at+1 >= len(r.src) {
		return r.fault("the text ends within a string")
	}
	switch r.src[r.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.at += 2
		return nil
	case 'u':
	default:
		return r.fault("a text has an escape that is none")
	}
	first := r.unit(r.at)
	switch {
	case first < 0:
		return r.fault(`want four hexadecimal digits behind \u`)
	case first >= 0xD800 && first <= 0xDBFF:
		if second := r.unit(r.at + 6); second < 0xDC00 || second > 0xDFFF {
			if r.odd {
				break
			}
			return r.fault("a text has half of a surrogate pair, which is no character")
		}
		r.at += 6
	case first >= 0xDC00 && first <= 0xDFFF && !r.odd:
		return r.fault("a text has half of a surrogate pair, which is no character")
	}
	r.at += 6
	return nil
}

// unit returns the code unit of the escape \uXXXX at a position, or -1 if there is none.
func (r *reader) unit(at int) int {
	if at+6 > len(r.src) || r.src[at] != '\\' || r.src[at+1] != 'u' {
		return -1
	}
	unit := 0
	for _, c := range r.src[at+2 : at+6] {
		var digit int
		switch {
		case c >= '0' && c <= '9':
			digit = int(c - '0')
		case c >= 'a' && c <= 'f':
			digit = int(c-'a') + 10
		case c >= 'A' && c <= 'F':
			digit = int(c-'A') + 10
		default:
			return -1
		}
		unit = unit<<4 | digit
	}
	return unit
}

// number reads a number and checks its limits.
func (r *reader) number() *Fault {
	begin := r.at
	if r.src[r.at] == '-' {
		r.at++
	}
	switch whole := r.digits(); {
	case whole == 0:
		return r.fault("want a digit")
	case whole > 1 && r.src[r.at-whole] == '0':
		return r.fault("a number begins with a zero that is too much")
	}
	if r.is('.') {
		r.at++
		if r.digits() == 0 {
			return r.fault("want a digit behind the point")
		}
	}
	if r.is('e') || r.is('E') {
		r.at++
		if r.is('+') || r.is('-') {
			r.at++
		}
		n := r.digits()
		if n == 0 {
			return r.fault("want a digit in the exponent")
		}
		if e, err := strconv.Atoi(string(r.src[r.at-min(n, 2*MaxNumber) : r.at])); err != nil || e > MaxExponent {
			return r.fault("the exponent of a number is more than %d", MaxExponent)
		}
	}
	if r.at-begin > MaxNumber {
		return r.fault("a number has %d bytes, at most %d are taken", r.at-begin, MaxNumber)
	}
	return nil
}

func (r *reader) is(c byte) bool { return r.at < len(r.src) && r.src[r.at] == c }

// digits skips digits and returns their number.
func (r *reader) digits() (n int) {
	for r.at < len(r.src) && r.src[r.at] >= '0' && r.src[r.at] <= '9' {
		r.at++
		n++
	}
	return n
}
