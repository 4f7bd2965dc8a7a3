package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// Printer writes the output of a command.
type Printer struct {
	Out io.Writer
	Err io.Writer
	// JSON selects the JSON form instead of tables.
	JSON bool
	// Terminal reports whether Out is a terminal.
	Terminal bool
	// Color allows ANSI colours on Out and Err.
	Color bool
}

// NewPrinter returns a Printer for two files. It uses colour if both are terminals, except if NO_COLOR or TERM=dumb is set.
func NewPrinter(out, err *os.File) *Printer {
	terminal := isTerminal(out)
	return &Printer{Out: out, Err: err, Terminal: terminal, Color: terminal && isTerminal(err) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

// Printf writes text to Out. It makes control characters visible, except line breaks and tabs.
func (p *Printer) Printf(format string, args ...any) {
	fmt.Fprint(p.Out, p.escapeControls(fmt.Sprintf(format, args...), "\n\t"))
}

// Warnf writes a line to Err, in the same way as Printf.
func (p *Printer) Warnf(format string, args ...any) {
	fmt.Fprint(p.Err, p.escapeControls(fmt.Sprintf(format, args...), "\n\t")+"\n")
}

// Fail reports an error. With JSON it writes the error under the key "error" to Out, otherwise as text to Err.
func (p *Printer) Fail(err error) { p.FailTo(err, nil) }

// FailTo reports the error of a command line as Fail does. In the text form, it suggests the allowed value that a word in args resembles.
// If the JSON form cannot be written to Out, the error is written as text.
func (p *Printer) FailTo(err error, args []string) {
	problem := ProblemOf(err)
	if p.JSON {
		if WriteJSON(p.Out, Object{{"error", problem}}) == nil {
			return
		}
	}
	p.Warnf("%s %s", p.paint(red, "error:"), problem)
	if word := problem.ClosestValue(args); word != "" {
		p.Warnf("did you mean %s?", word)
	}
}

// Colours of ANSI terminals.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
	dim    = "2"
)

func (p *Printer) paint(code, text string) string {
	if !p.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold marks text on a terminal.
func (p *Printer) Bold(text string) string { return p.paint(bold, text) }

// Dim makes text fainter on a terminal.
func (p *Printer) Dim(text string) string { return p.paint(dim, text) }

// Good colours a good result.
func (p *Printer) Good(text string) string { return p.paint(green, text) }

// Bad colours a fault.
func (p *Printer) Bad(text string) string { return p.paint(red, text) }

// Warn colours a warning.
func (p *Printer) Warn(text string) string { return p.paint(yellow, text) }

// Status colours the name of a run's status.
func (p *Printer) Status(name string) string {
	switch name {
	case "COMPLETED":
		return p.paint(green, name)
	case "RUNNING":
		return p.paint(cyan, name)
	case "WAITING":
		return p.paint(yellow, name)
	}
	return p.paint(red, name)
}

// Table is a table with headers.
type Table struct {
	Headers []string
	Rows    [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Table writes a table whose columns are as wide as their cells. Two spaces separate the columns.
func (p *Printer) Table(t Table) {
	t = p.cells(t)
	widths := t.widths()
	p.row(t.Headers, widths, "  ", bold)
	for _, row := range t.Rows {
		p.row(row, widths, "  ", "")
	}
}

// PrintRuled writes the table with lines between columns, as in the tables of PromptPack RFC 0009.
func (p *Printer) PrintRuled(t Table) {
	t = p.cells(t)
	widths := t.widths()
	p.row(t.Headers, widths, " │ ", bold)
	rules := make([]string, len(widths))
	for i, w := range widths {
		rules[i] = strings.Repeat("─", w)
	}
	p.Printf("%s\n", strings.Join(rules, "─┼─"))
	for _, row := range t.Rows {
		p.row(row, widths, " │ ", "")
	}
}

func (t Table) widths() []int {
	widths := make([]int, len(t.Headers))
	for _, row := range append([][]string{t.Headers}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], visible(cell))
		}
	}
	return widths
}

// row prints one line of a table. gap stands between the cells.
func (p *Printer) row(cells []string, widths []int, gap, colour string) {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString(gap)
		}
		text := cell
		if colour != "" {
			text = p.paint(colour, cell)
		}
		b.WriteString(text)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-visible(cell)))
		}
	}
	p.Printf("%s\n", strings.TrimRight(b.String(), " "))
}

// visible returns the number of characters of a cell, without its colours.
func visible(cell string) int {
	n := utf8.RuneCountInString(cell)
	for rest := cell; ; {
		at := strings.Index(rest, "\x1b[")
		if at < 0 {
			return n
		}
		end := strings.IndexByte(rest[at:], 'm')
		if end < 0 {
			return n
		}
		n -= end + 1
		rest = rest[at+end+1:]
	}
}

// Shorten returns a text as one line of at most n characters. ASCII control characters become spaces.
func Shorten(text string, n int) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text))
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
