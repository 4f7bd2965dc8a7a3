package source

import "bytes"

// yamlScanner checks the limits of a YAML document without building a tree. It follows block structure by columns and flow structure by
// brackets, and skips quoted, block and plain scalars. Its counts are too high only for empty flow collections and for commas before a
// closing bracket, which count as one more value. After parsing, the tree is measured exactly. If a document is not YAML, the parser
// reports this.
type yamlScanner struct {
	scanner
	// cols are the columns of the open block collections. The outermost comes first.
	cols []int
	flow int
	i    int
}

// scanYAML scans the whole document.
func (s *yamlScanner) scanYAML() *Fault {
	for s.i < len(s.src) {
		if f := s.line(); f != nil {
			return f
		}
	}
	return nil
}

// line reads one line of block structure, and the scalar or flow collection that starts on it, to its end.
func (s *yamlScanner) line() *Fault {
	start := s.i
	for s.i < len(s.src) && s.src[s.i] == ' ' {
		s.i++
	}
	if s.atLineEnd() || s.src[s.i] == '#' {
		s.skipLine()
		return nil
	}
	if s.i == start && s.atMarker() {
		s.cols = s.cols[:0]
		s.i += 3
		s.skipSpaces()
		if s.atLineEnd() {
			s.skipLine()
			return nil
		}
		return s.content(start, -1)
	}
	s.close(s.i - start)
	return s.structure(start)
}

// structure reads the dashes and question marks that open nested collections on one line, and then the
// content after them.
func (s *yamlScanner) structure(lineStart int) *Fault {
	for s.indicator() {
		if f := s.open(s.i-lineStart, s.i); f != nil {
			return f
		}
		s.i++
		s.skipSpaces()
		if s.atLineEnd() || s.src[s.i] == '#' {
			s.skipLine()
			return nil
		}
	}
	return s.content(lineStart, s.i-lineStart)
}

// indicator reports whether the scanner is at a "-" or "?" that opens a block entry.
func (s *yamlScanner) indicator() bool {
	if s.i >= len(s.src) || s.src[s.i] != '-' && s.src[s.i] != '?' {
		return false
	}
	return s.i+1 >= len(s.src) || isBlank(s.src[s.i+1])
}

// content reads the rest of a line after its indicators. The rest is "key: value" or a value. col is
// the column of the content. It is -1 after a document marker.
func (s *yamlScanner) content(lineStart, col int) *Fault {
	for {
		s.properties()
		if s.atLineEnd() || s.src[s.i] == '#' {
			s.skipLine()
			return nil
		}
		begin := s.i
		plain, f := s.value()
		if f != nil {
			return f
		}
		if !s.isKey() {
			if f := s.countValue(begin); f != nil {
				return f
			}
			if plain {
				s.continuation()
			}
			return nil
		}
		s.i++
		if f := s.open(max(col, 0), begin); f != nil {
			return f
		}
		col = begin - lineStart + 1
		s.skipSpaces()
	}
}

// value skips one scalar or flow collection. Of a plain scalar it skips only the first line, and then
// it returns plain = true.
func (s *yamlScanner) value() (plain bool, f *Fault) {
	switch s.src[s.i] {
	case '"', '\'':
		return false, s.quoted()
	case '[', '{':
		return false, s.flowCollection()
	case '|', '>':
		return false, s.block()
	default:
		return true, s.skipPlain()
	}
}

// isKey reports whether the last skipped value is a key. If it is one, isKey moves to its colon.
func (s *yamlScanner) isKey() bool {
	j := s.i
	for j < len(s.src) && (s.src[j] == ' ' || s.src[j] == '\t') {
		j++
	}
	if j < len(s.src) && s.src[j] == ':' && (j+1 >= len(s.src) || isBlank(s.src[j+1])) {
		s.i = j
		return true
	}
	return false
}

// open records that a block collection begins at a column. If a collection at this column, or further right, is
// already open, it does nothing.
func (s *yamlScanner) open(col, off int) *Fault {
	if n := len(s.cols); n > 0 && s.cols[n-1] >= col {
		return nil
	}
	if f := s.countValue(off); f != nil {
		return f
	}
	s.cols = append(s.cols, col)
	return s.tooDeep(off, len(s.cols)+s.flow)
}

// close ends the collections that are indented more than col.
func (s *yamlScanner) close(col int) {
	for len(s.cols) > 0 && s.cols[len(s.cols)-1] > col {
		s.cols = s.cols[:len(s.cols)-1]
	}
}

// parent returns the column of the innermost open collection. It returns -1 if none is open.
func (s *yamlScanner) parent() int {
	if len(s.cols) == 0 {
		return -1
	}
	return s.cols[len(s.cols)-1]
}

// properties skips anchors and tags before a value.
func (s *yamlScanner) properties() {
	for s.i < len(s.src) && (s.src[s.i] == '&' || s.src[s.i] == '!') {
		for s.i < len(s.src) && !isBlank(s.src[s.i]) {
			s.i++
		}
		s.skipSpaces()
	}
}

func (s *yamlScanner) peek(n int) byte {
	if s.i+n < len(s.src) {
		return s.src[s.i+n]
	}
	return 0
}

// atMarker reports whether the scanner is at the start of a line with "---" or "...".
func (s *yamlScanner) atMarker() bool {
	rest := s.src[s.i:]
	return (bytes.HasPrefix(rest, []byte("---")) || bytes.HasPrefix(rest, []byte("..."))) &&
		(len(rest) == 3 || isBlank(rest[3]))
}

func (s *yamlScanner) atLineEnd() bool {
	return s.i >= len(s.src) || s.src[s.i] == '\n' || s.src[s.i] == '\r'
}

func (s *yamlScanner) skipSpaces() {
	for s.i < len(s.src) && (s.src[s.i] == ' ' || s.src[s.i] == '\t') {
		s.i++
	}
}

// skipLine moves after the next line break.
func (s *yamlScanner) skipLine() {
	n := bytes.IndexByte(s.src[min(s.i, len(s.src)):], '\n')
	if n < 0 {
		s.i = len(s.src)
		return
	}
	s.i += n + 1
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
