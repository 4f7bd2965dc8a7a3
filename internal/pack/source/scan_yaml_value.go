package source

import "bytes"

// quoted skips a quoted scalar, which may span lines.
func (s *yamlScanner) quoted() *Fault {
	begin, mark := s.i, s.src[s.i]
	for s.i++; s.i < len(s.src); s.i++ {
		switch c := s.src[s.i]; {
		case c == '\\' && mark == '"':
			s.i++
		case c == mark && mark == '\'' && s.peek(1) == '\'':
			s.i++
		case c == mark:
			s.i++
			return s.tooLong(begin, s.i-begin-2)
		}
	}
	s.i = len(s.src)
	return s.tooLong(begin, s.i-begin)
}

// skipPlain skips a plain scalar up to ": ", " #" or the end of the line.
func (s *yamlScanner) skipPlain() *Fault {
	begin := s.i
	for ; !s.atLineEnd(); s.i++ {
		if s.src[s.i] == ':' && (s.i+1 >= len(s.src) || isBlank(s.src[s.i+1])) {
			break
		}
		if s.src[s.i] == '#' && s.i > begin && isBlank(s.src[s.i-1]) {
			break
		}
	}
	return s.tooLong(begin, s.i-begin)
}

// continuation skips the further lines of a plain scalar. These are the lines that are indented more than the parent of the scalar.
func (s *yamlScanner) continuation() {
	s.skipLine()
	for s.i < len(s.src) {
		j := s.i
		for j < len(s.src) && s.src[j] == ' ' {
			j++
		}
		blank := j >= len(s.src) || s.src[j] == '\n' || s.src[j] == '\r'
		if !blank && (j-s.i <= s.parent() || s.src[j] == '#' || s.atMarker()) {
			return
		}
		s.skipLine()
	}
}

// block skips a literal or folded scalar. It consists of the lines that are indented more than the parent of the scalar.
func (s *yamlScanner) block() *Fault {
	begin, parent := s.i, s.parent()
	s.skipLine()
	for s.i < len(s.src) {
		j := s.i
		for j < len(s.src) && s.src[j] == ' ' {
			j++
		}
		blank := j >= len(s.src) || s.src[j] == '\n' || s.src[j] == '\r'
		if !blank && (j-s.i <= parent || parent < 0 && s.atMarker()) {
			break
		}
		s.skipLine()
	}
	return s.tooLong(begin, s.i-begin)
}

// flowCollection skips a bracketed collection, which may span lines, to its closing bracket.
func (s *yamlScanner) flowCollection() *Fault {
	base := s.flow
	for s.i < len(s.src) {
		var f *Fault
		switch c := s.src[s.i]; c {
		case '[', '{':
			s.flow++
			if f = s.tooDeep(s.i, len(s.cols)+s.flow); f == nil {
				f = s.countValue(s.i)
			}
			s.i++
		case ']', '}':
			s.flow--
			s.i++
		case ',':
			f = s.countValue(s.i)
			s.i++
		case '"', '\'':
			f = s.quoted()
		case '#':
			if s.i > 0 && isBlank(s.src[s.i-1]) {
				s.skipLine()
			} else {
				s.i++
			}
		default:
			f = s.flowPlain()
		}
		if f != nil || s.flow == base {
			return f
		}
	}
	return nil
}

// flowPlain skips a sequence of plain characters, or of white space, inside brackets.
func (s *yamlScanner) flowPlain() *Fault {
	begin := s.i
	for s.i++; s.i < len(s.src); s.i++ {
		c := s.src[s.i]
		if bytes.IndexByte([]byte("[]{},"), c) >= 0 {
			break
		}
		// A quote or a comment starts a token only after white space or a colon.
		if prev := s.src[s.i-1]; (c == '"' || c == '\'' || c == '#') && (isBlank(prev) || prev == ':') {
			break
		}
	}
	return s.tooLong(begin, s.i-begin)
}
