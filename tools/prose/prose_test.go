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

// Each word of both lists is found in a comment of the public contract, and in no field name of it.
func TestEachWordOfContract(t *testing.T) {
	t.Parallel()
	if len(contractReplacements) < 20 {
		t.Fatalf("%d words only", len(contractReplacements))
	}
	for _, list := range []map[string]string{replacements, contractReplacements} {
		for word := range list {
			if len(checkContract("proto/a.proto", "message A {\n  // It "+word+" here.\n  string a = 1;\n}\n")) == 0 {
				t.Errorf("%q is not found", word)
			}
		}
	}
	if all := checkContract("proto/a.proto", "// Sound.\nmessage A {\n  string told = 1 [(x) = \"asked\"];\n}\n"); len(all) > 0 {
		t.Errorf("found in code: %v", all)
	}
}

// The contract is checked whole, and each of its findings is reported once, also in a changed line.
func TestContract(t *testing.T) {
	t.Parallel()
	root := repository(t, map[string]string{"proto/a.proto": "// Old: nobody is asked.\nmessage A {}\n", "docs/a.proto": "// asked\n"})
	want := `proto/a.proto:1: "nobody": write "no caller", "no node", "no worker"` + "\n" + `proto/a.proto:1: "asked": write "requested", "required"` + "\n"
	if got := found(t, root); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	write(t, root, map[string]string{"proto/a.proto": "message A {} // True: asked for.\n"})
	want = `proto/a.proto:1: "True:": write "True if"` + "\n" + `proto/a.proto:1: "asked for": write "requested"` + "\n"
	if got := found(t, root); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// All comments, log messages, texts of errors and declared names of the product are checked, in each
// language. Of tests, only comments and log messages are checked. Generated files are not checked.
func TestProduct(t *testing.T) {
	t.Parallel()
	root := repository(t, map[string]string{
		"internal/a/a.go": "package a\n\n// The caller hears of it.\nvar calm, takeSeat = 1, \"nobody\" // sound\n\n" +
			"type guestBook struct{ HouseName string }\n\nfunc (g *guestBook) nobodyAsks(whom int) {\n\tlogger.Warn(\"nobody answers\")\n\tdepotURL := `hears`\n}\n",
		"clients/p/a.py":           "def take_seat(a):\n    \"\"\"Waits.\n\n    The caller hears.\n    \"\"\"\n    guest = a  # told\n    return \"nobody\"\n",
		"clients/t/a.ts":           "/** What somebody sends. */\nexport class Stranger {\n  readonly houseName: string;\n  takeSeat(a: string): void {\n  }\n}\nconst tally = \"nobody\";\n",
		"internal/a/a_test.go":     "package a\n\n// Nobody waits.\nvar seat = 1\n",
		"internal/a/b.pb.go":       "// Code generated by protoc. DO NOT EDIT.\n\npackage a\n\n// Nobody waits.\nvar seat = 1\n",
		"clients/t/a.spec.ts":      "// nobody\nconst seat = 1;\n",
		"clients/p/tests/tools.py": "seat = 1  # nobody\n",
		"test/a.go":                "package a\n\n// Nobody waits.\nvar seat = 1\n",
	})
	want := []string{
		`clients/p/a.py:1: "seat" in the name take_seat: use slot`,
		`clients/p/a.py:4: "hears": write "receives"`,
		`clients/p/a.py:6: "told": write "sent", "reported", "notified"`,
		`clients/p/a.py:6: "guest" in the name guest: use caller, client`,
		`clients/p/tests/tools.py:1: "nobody": write "no caller", "no node", "no worker"`,
		`clients/t/a.spec.ts:1: "nobody": write "no caller", "no node", "no worker"`,
		`clients/t/a.ts:1: "somebody": write "a caller", "another node", "a user"`,
		`clients/t/a.ts:2: "stranger" in the name Stranger: use unknown`,
		`clients/t/a.ts:3: "house" in the name houseName: use server`,
		`clients/t/a.ts:4: "seat" in the name takeSeat: use slot`,
		`clients/t/a.ts:7: "tally" in the name tally: use metrics, counts`,
		`internal/a/a.go:3: "hears": write "receives"`,
		`internal/a/a.go:4: "seat" in the name takeSeat: use slot`,
		`internal/a/a.go:6: "guest" in the name guestBook: use caller, client`,
		`internal/a/a.go:6: "house" in the name HouseName: use server`,
		`internal/a/a.go:8: "nobody" in the name nobodyAsks: use none, noCaller, noWorker`,
		`internal/a/a.go:8: "whom" in the name whom: use the role: caller, worker, owner`,
		`internal/a/a.go:9: "nobody": write "no caller", "no node", "no worker"`,
		`internal/a/a.go:10: "depot" in the name depotURL: use store`,
		`internal/a/a_test.go:3: "Nobody": write "no caller", "no node", "no worker"`,
		`test/a.go:3: "Nobody": write "no caller", "no node", "no worker"`,
	}
	if got := found(t, root); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("got:\n%swant:\n%s", got, strings.Join(want, "\n"))
	}
}

// Comments of benchmarks and of test/ are checked, and comments of the stored format like those of the contract.
func TestTestCode(t *testing.T) {
	t.Parallel()
	root := repository(t, map[string]string{
		"bench/a.go": "package a\n\n// Nobody reads it.\n", "test/e2e/a_test.go": "package a\n\n// It is told.\n",
		"internal/a/a.proto": "syntax = \"proto3\";\n\n// Nobody reads it.\nmessage A {}\n",
	})
	want := `bench/a.go:3: "Nobody": write "no caller", "no node", "no worker"` + "\n" +
		`internal/a/a.proto:3: "Nobody": write "no caller", "no node", "no worker"` + "\n" +
		`test/e2e/a_test.go:3: "is told": write "receives", "is notified of"` + "\n"
	if got := found(t, root); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// Each word of both lists is found in the product's code: in a comment and in a log message, and as a
// part of a name.
func TestEachWordOfProduct(t *testing.T) {
	t.Parallel()
	if len(nameReplacements) < 40 {
		t.Fatalf("%d words of names only", len(nameReplacements))
	}
	for word := range replacements {
		for name, text := range map[string]string{
			"internal/a.go": "package a\n\n// It " + word + " here.\n", "clients/a.py": "# It " + word + " here.\n",
			"clients/a.ts": "/** It " + word + " here. */\n", "cmd/a.go": "package a\n\nfunc f() { log.Info(\"It " + word + " here.\") }\n",
			"internal/b.go": "package a\n\nfunc f() error { return errors.New(\"It " + word + " here.\") }\n",
			"internal/c.go": "package a\n\nvar e = &Error{Message: fmt.Sprintf(\"It " + word + " %s.\", x)}\n",
			"internal/d.go": "package a\n\nvar e = fmt.Errorf(\"%w: it \" +\n\t\"" + word + " here.\", x)\n",
			"clients/b.py":  "raise ValueError(f\"It " + word + " here.\")\n", "clients/b.ts": "throw new TypeError(`It " + word + " here.`);\n",
			"clients/c.py": "raise ValueError(\n    f\"It's {x} \"\n    \"" + word + " here.\"\n)\n", "clients/c.ts": "throw new TypeError(\n  'It ' +\n    `" + word + " here.`,\n);\n",
		} {
			if len(checkProduct(name, text)) == 0 {
				t.Errorf("%s: %q is not found", name, word)
			}
		}
	}
	for word := range nameReplacements {
		for name, text := range map[string]string{
			"internal/a.go": "package a\n\nvar my" + strings.ToUpper(word[:1]) + word[1:] + " = 1\n", "clients/a.py": "def my_" + word + "():\n",
			"clients/a.ts": "const " + word + "Of = 1;\n",
		} {
			if len(checkProduct(name, text)) != 1 {
				t.Errorf("%s: %q is not found in a name", name, word)
			}
		}
	}
}
