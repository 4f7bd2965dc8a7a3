package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a git repository with these files, committed on the branch main.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, files)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return root
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func found(t *testing.T, root string) string {
	t.Helper()
	all, err := check(root, "main")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range all {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// Each fault that is planted in a page is found, and nothing in a sound one.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, page, want string }{
		{"sound", "# A\n\nThe caller sends `told`. See [b](b.md#the-part) and docs/b.md.\n\n```\nnobody [x](nowhere.md)\n```\n", ""},
		{"word", "# A\n\nThe worker hears of it.\n", `docs/a.md:3: "hears": write "receives"`},
		{"word at the start", "Nobody calls.\n", `docs/a.md:1: "Nobody": write "no caller", "no node", "no worker"`},
		{"spelling", "The worker reci" + "eves it.\n", `docs/a.md:1: "reci` + `eves": write "receives"`},
		{"file", "[x](nowhere.md)\n", `docs/a.md:1: dead link "nowhere.md": there is no such file`},
		{"heading", "[x](b.md#other)\n", `docs/a.md:1: dead link "b.md#other": the page has no such heading`},
		{"own heading", "# A\n[x](#b)\n", `docs/a.md:2: dead link "#b": the page has no such heading`},
		{"path", "See docs/c.md.\n", `docs/a.md:1: dead reference "docs/c.md": there is no such file`},
		{"empty", " \n", "docs/a.md:1: the file is empty: fill it or remove it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := repository(t, map[string]string{"docs/a.md": test.page, "docs/b.md": "# B\n\n## The part\n"})
			got := found(t, root)
			if test.want == "" && got != "" || test.want != "" && got != test.want+"\n" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Comments and log messages are checked in lines that changed, and in no others.
func TestChangedLines(t *testing.T) {
	t.Parallel()
	const old = "package a\n\n// Old code told it.\n"
	root := repository(t, map[string]string{"a.go": old, "a.py": "x = 1\n", "a.ts": "// told\n"})
	if got := found(t, root); got != "" {
		t.Errorf("without a change: %s", got)
	}
	write(t, root, map[string]string{
		"a.go": old + "var told = 1 // nobody reads it\nfunc f() { logger.Warn(\"the caller is told\") }\nvar s = \"nobody\"\n",
		"a.py": "x = 1\ndef f():\n    \"\"\"Sends it.\n\n    The caller hears.\n    \"\"\"\n    return told  # see docs/none.md\n",
		"a.ts": "// told\n/**\n * What somebody sends.\n */\nconst told = 1;\n",
	})
	want := []string{
		`a.py:7: dead reference "docs/none.md": there is no such file`,
		`a.go:4: "nobody": write "no caller", "no node", "no worker"`,
		`a.go:5: "is told": write "receives", "is notified of"`,
		`a.py:5: "hears": write "receives"`,
		`a.ts:3: "somebody": write "a caller", "another node", "a user"`,
	}
	if got := found(t, root); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("got:\n%swant:\n%s", got, strings.Join(want, "\n"))
	}
}

// Each word of the list has a replacement, and is found.
func TestListIsRead(t *testing.T) {
	t.Parallel()
	if len(replacements) < 30 {
		t.Fatalf("%d words only", len(replacements))
	}
	for word := range replacements {
		if len(checkLine("a.md", 1, "It "+word+" here.")) == 0 {
			t.Errorf("%q is not found", word)
		}
	}
}
