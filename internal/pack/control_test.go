package pack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestControlKeys: each bad value of a key that controls what runs do is an error or a warning, with these
// words and at this place. A block of the file has changed lines of base and, after ----, all findings. LONG×N
// stands for N letters. With -rewrite the test writes the file again.
func TestControlKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "control.txt")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines, want, found := strings.Cut(block, "\n----\n")
		if !found {
			lines = strings.TrimSuffix(block, "\n----")
		}
		got := saidOf(t, lines)
		if got != want && !*rewrite {
			t.Errorf("%s\n----\n%s\nwant\n%s", lines, got, want)
		}
		out = append(out, lines+"\n----\n"+got)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// saidOf loads the changed base and writes what is found.
func saidOf(t *testing.T, lines string) string {
	t.Helper()
	var change []string
	for line := range strings.SplitSeq(lines, "\n") {
		if before, after, long := strings.Cut(line, "LONG×"); long {
			var n int
			if _, err := fmt.Sscan(after, &n); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			line = before + strings.Repeat("a", n) + strings.TrimPrefix(after, fmt.Sprint(n))
		}
		if !strings.HasPrefix(line, "#") {
			change = append(change, line)
		}
	}
	p, found, err := Load(changedPack(t, strings.Join(change, "\n")), Options{})
	if err != nil || (p == nil) != HasErrors(found) {
		t.Fatalf("%s: pack %v, %v, %v", lines, p, found, err)
	}
	said := []string{}
	for _, f := range found {
		if f.Line < 1 || f.Column < 1 {
			t.Errorf("%s: no position: %v", lines, f)
		}
		said = append(said, fmt.Sprintf("%s %s %s\n  %s", f.Severity, f.Code, f.Pointer, f.Message))
		if f.Hint != "" {
			said = append(said, "  -> "+f.Hint)
		}
	}
	if len(said) == 0 {
		return "ok"
	}
	return strings.ReplaceAll(strings.Join(said, "\n"), strings.Repeat("a", 200), "")
}
