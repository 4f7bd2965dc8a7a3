package timetravel

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestDiffTextIsCut: a text that is too long is cut at the end of a line. A single line that is too
// long is cut between two characters.
func TestDiffTextIsCut(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]string{
		"lines": strings.Repeat("some line\n", 60_000), "one line": strings.Repeat("ä", 300_000),
	} {
		text, cut := diffText("n", "", b)
		if !cut || len(text) > maxText || len(text) < maxText-64 && name == "lines" || !utf8.ValidString(text) {
			t.Errorf("%s: %d bytes, cut %v, valid %v", name, len(text), cut, utf8.ValidString(text))
		}
	}
	if text, cut := diffText("n", "a\n", "b\n"); cut || !strings.HasSuffix(text, "-a\n+b\n") {
		t.Errorf("%q, %v", text, cut)
	}
}
