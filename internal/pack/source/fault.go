package source

import "fmt"

// These are the codes of faults. The codes are part of the product's rules. Package pack contains the
// texts of these rules.
const (
	CodeSize      = "PPPAWL-1"
	CodeUTF8      = "PPPAWL-2"
	CodeDepth     = "PPPAWL-3"
	CodeScalar    = "PPPAWL-4"
	CodeNodes     = "PPPAWL-5"
	CodeDuplicate = "PPPAWL-6"
	CodeSyntax    = "PPPAWL-7"
	CodeOneDoc    = "PPPAWL-8"
	CodeNotJSON   = "PPPAWL-10"
	CodeNumber    = "PPPAWL-11"
	CodeRoot      = "PPPAWL-12"
)

// Fault is the reason why a document cannot be read, with its position.
type Fault struct {
	// Code is one of the codes above. It never changes.
	Code string
	// Line and Col begin at 1. Col counts characters.
	Line, Col int
	// Msg describes the fault. Hint describes how to correct it. Hint may be empty.
	Msg, Hint string
}

func (f *Fault) Error() string { return fmt.Sprintf("%d:%d: %s", f.Line, f.Col, f.Msg) }

// Clip shortens a text of a document for use in a message. It cuts at a character boundary.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// quoted returns a name from the document in quotes, for use in a message.
func quoted(s string) string { return fmt.Sprintf("%q", Clip(s, 80)) }
