package docpage

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

// Check compares the part name of the file page, a path from the test's directory, with want.
func Check(t *testing.T, page, name, want string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- generated:"+name+" -->\n", "<!-- /generated:"+name+" -->"
	before, rest, found := strings.Cut(string(raw), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no part %q: write %q and %q into it", page, name, strings.TrimSpace(begin), end)
	}
	want = "\n" + strings.TrimSpace(want) + "\n\n"
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s: the part %q differs from the code; `make docs` writes it", page, name)
	}
	if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Cell returns a text as a cell of a table.
func Cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
