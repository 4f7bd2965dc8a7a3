package output

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// colours are the escape sequences that paint writes.
var colours = []string{
	"\x1b[0m", "\x1b[" + red + "m", "\x1b[" + green + "m", "\x1b[" + yellow + "m",
	"\x1b[" + cyan + "m", "\x1b[" + bold + "m", "\x1b[" + dim + "m",
}

// escapeControls makes control characters visible. A terminal would execute them, and ids, labels and reasons may come from any caller. C0, DEL,
// C1 and invalid UTF-8 become escapes as in Go. The characters in keep and the printer's own colours are not changed.
func (p *Printer) escapeControls(text, keep string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		n := p.colourAt(text)
		if n > 0 {
			b.WriteString(text[:n])
		} else {
			n = one(&b, text, keep)
		}
		text = text[n:]
	}
	return b.String()
}

// colourAt returns the length of the colour escape at the start of a text. It returns 0 if there is none.
func (p *Printer) colourAt(text string) int {
	if !p.Color || text[0] != '\x1b' {
		return 0
	}
	for _, colour := range colours {
		if strings.HasPrefix(text, colour) {
			return len(colour)
		}
	}
	return 0
}

// one writes the first character of a text in visible form and returns its length in the text.
func one(b *strings.Builder, text, keep string) int {
	r, n := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && n == 1, unicode.IsControl(r) && !strings.ContainsRune(keep, r):
		quoted := strconv.Quote(text[:n])
		b.WriteString(quoted[1 : len(quoted)-1])
	default:
		b.WriteString(text[:n])
	}
	return n
}

// cells returns the table with the text of each cell on one line.
func (p *Printer) cells(t Table) Table {
	out := Table{Headers: t.Headers}
	for _, row := range t.Rows {
		shown := make([]string, len(row))
		for i, cell := range row {
			shown[i] = p.escapeControls(cell, "")
		}
		out.Add(shown...)
	}
	return out
}
