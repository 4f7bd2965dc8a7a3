package output

import (
	"bytes"
	"testing"
)

// TestControlCharactersAreShown: the printer shows control characters as text, so that a text from another
// user cannot command the terminal.
func TestControlCharactersAreShown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain — ünï":           "plain — ünï",
		"one\ntwo\tthree":       "one\ntwo\tthree",
		"\x1b]0;title\a":        `\x1b]0;title\a`,
		"\x1b[2J\x1b[31mred":    `\x1b[2J\x1b[31mred`,
		"back\b\r":              `back\b\r`,
		"nul\x00 del\x7f":       `nul\x00 del\x7f`,
		"\u009b31m\u0085":       `\u009b31m\u0085`,
		"raw \x9b31m":           `raw \x9b31m`,
		"said \\x1b and \uFFFD": "said \\x1b and \uFFFD",
	} {
		var out, errs bytes.Buffer
		p := &Printer{Out: &out, Err: &errs}
		p.Printf("<%s>", in)
		p.Warnf("<%s>", in)
		if got := out.String(); got != "<"+want+">" {
			t.Errorf("Printf %q: %q, want %q", in, got, want)
		}
		if got := errs.String(); got != "<"+want+">\n" {
			t.Errorf("Warnf %q: %q, want %q", in, got, want)
		}
	}
}

// TestOwnColoursPass: the printer's own colours pass, and nothing else that begins as they do.
func TestOwnColoursPass(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &Printer{Out: &out, Color: true}
	p.Printf("%s \x1b[31;5mx\x1b[3", p.Bad("bad"))
	if got, want := out.String(), "\x1b[31mbad\x1b[0m "+`\x1b[31;5mx\x1b[3`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCellsStayOnTheirLine: a column is as wide as the text that it shows.
func TestCellsStayOnTheirLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &Printer{Out: &out}
	table := Table{Headers: []string{"id", "n"}}
	table.Add("a\nb\x1b", "1")
	table.Add("c", "2")
	p.Table(table)
	if want := "id        n\na\\nb\\x1b  1\nc         2\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
