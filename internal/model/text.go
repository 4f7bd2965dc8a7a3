package model

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// textAt returns a text in an event, with half characters as in [unquoteJSON]. It returns "" if there is no text.
func textAt(at gjson.Result, path string) string {
	return textIn(at.Get(path))
}

func textIn(v gjson.Result) string {
	switch {
	case v.Type == gjson.String:
		return unquoteJSON(v.Raw)
	case v.IsObject() || v.IsArray():
		return ""
	}
	return v.String()
}

// unquoteJSON returns a JSON string as text. Half of a surrogate pair is written as the UTF-8 form of its code unit, because the other half
// may arrive in the next piece. [wellFormed] joins the halves.
func unquoteJSON(raw string) string {
	raw = strings.TrimSuffix(strings.TrimPrefix(raw, `"`), `"`)
	if strings.IndexByte(raw, '\\') < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		i++
		if unit, ok := readEscape(raw[i:]); ok {
			out = appendUnit(out, unit)
			i += 4
			continue
		}
		out = append(out, plainOf(raw[i]))
	}
	return string(out)
}

// plainOf returns the byte that a one-letter escape stands for.
func plainOf(c byte) byte {
	if i := strings.IndexByte("bfnrt", c); i >= 0 {
		return "\b\f\n\r\t"[i]
	}
	return c
}

// readEscape reads the code unit of an escape of the form uXXXX.
func readEscape(s string) (unit uint16, ok bool) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:5], 16, 16)
	return uint16(n), err == nil
}

func appendUnit(out []byte, unit uint16) []byte {
	if !isHalf(unit) {
		return utf8.AppendRune(out, rune(unit))
	}
	return append(out, 0xE0|byte(unit>>12), 0x80|byte(unit>>6)&0xBF, 0x80|byte(unit)&0xBF)
}

const (
	firstHalf, secondHalf, afterHalves = 0xD800, 0xDC00, 0xE000
	// halfBytes is the number of bytes of half of a surrogate pair.
	halfBytes = 3
)

func isHalf(unit uint16) bool { return unit >= firstHalf && unit < afterHalves }

// halfAt returns the half of a surrogate pair with which a text begins.
func halfAt(s string) (unit uint16, ok bool) {
	if len(s) < halfBytes || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2] < 0x80 || s[2] > 0xBF {
		return 0, false
	}
	return 0xD000 | uint16(s[1]&0x3F)<<6 | uint16(s[2]&0x3F), true
}

// wellFormed joins halves of surrogate pairs. It replaces a single half, and bytes that are not UTF-8, by U+FFFD.
func wellFormed(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		first, ok := halfAt(s)
		if !ok {
			n := 1
			for n < len(s) && s[n] != 0xED {
				n++
			}
			out.WriteString(strings.ToValidUTF8(s[:n], string(utf8.RuneError)))
			s = s[n:]
			continue
		}
		s = s[halfBytes:]
		if second, ok := halfAt(s); ok && first < secondHalf && second >= secondHalf {
			out.WriteRune(0x10000 + rune(first-firstHalf)<<10 + rune(second-secondHalf))
			s = s[halfBytes:]
			continue
		}
		out.WriteRune(utf8.RuneError)
	}
	return out.String()
}

// withoutHalf returns a text without the first half of a surrogate pair at its end. It also returns that half.
func withoutHalf(s string) (whole, half string) {
	if n := len(s) - halfBytes; n >= 0 {
		if unit, ok := halfAt(s[n:]); ok && unit < secondHalf {
			return s[:n], s[n:]
		}
	}
	return s, ""
}

// wholeEscapes replaces, in a JSON text, each escape of a single half of a surrogate pair by \ufffd.
func wholeEscapes(s string) string {
	if !strings.Contains(s, `\u`) {
		return s
	}
	out := []byte(s)
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		unit, ok := readEscape(s[i:])
		if !ok {
			continue
		}
		if unit >= firstHalf && unit < secondHalf && i+6 < len(s) && s[i+5] == '\\' {
			if second, ok := readEscape(s[i+6:]); ok && second >= secondHalf && isHalf(second) {
				i += 10
				continue
			}
		}
		if isHalf(unit) {
			copy(out[i:], "ufffd")
		}
		i += 4
	}
	return string(out)
}
