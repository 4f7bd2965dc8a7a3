// Command prose checks the words of the repository: links between pages, spelling, empty pages, and
// words that are hard to understand. Run it in the root of the repository. It prints one line for
// each finding, as FILE:LINE: WORD: REPLACEMENT, and exits with 1 if there is one.
//
// Pages are checked whole, except for the decision records in docs/dev/adr. In the product's code it
// checks all comments, log messages, texts of errors and declared names. In the public contract (proto) it
// checks all comments, with the words of contract.txt too. In the benchmarks and in most of test/ it checks
// all comments. In other code it checks the comments and log messages of the lines that differ from the merge
// base with -base.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

func main() {
	base := flag.String("base", "main", "branch that changed lines are compared with")
	flag.Parse()
	findings, err := check(".", *base)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d findings\n", len(findings))
		os.Exit(1)
	}
}

// finding is one fault: where it is, and what to do.
type finding struct {
	file string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text) }

// check returns the findings of the repository at root, by file and line.
func check(root, base string) ([]finding, error) {
	files, err := textFiles(root)
	if err != nil {
		return nil, err
	}
	all := checkLinks(root, files)
	for _, name := range slices.Sorted(keys(files)) {
		text := files[name]
		switch {
		case strings.HasPrefix(name, "docs/") && strings.TrimSpace(text) == "":
			all = append(all, finding{name, 1, "the file is empty: fill it or remove it"})
		case isPage(name):
			for i, line := range proseOf(text) {
				all = append(all, checkLine(name, i+1, line)...)
			}
		case isContract(name):
			all = append(all, checkContract(name, text)...)
		case isProduct(name, text):
			all = append(all, checkProduct(name, text)...)
		case isTestCode(name, text):
			all = append(all, checkComments(name, text)...)
		}
	}
	changed, err := changedLines(root, base)
	if err != nil {
		return nil, err
	}
	for _, c := range changed {
		if text := spoken(c, files[c.file]); text != "" && !isContract(c.file) && !isProduct(c.file, files[c.file]) && !isTestCode(c.file, files[c.file]) {
			all = append(all, checkLine(c.file, c.line, text)...)
		}
	}
	return all, nil
}

// isPage reports whether a file is documentation that is checked whole. Decision records keep the
// words of their day.
func isPage(name string) bool {
	return strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "docs/dev/adr/")
}

// textFiles returns the text files that git knows or would add, by their names.
func textFiles(root string) (map[string]string, error) {
	list, err := git(root, "ls-files", "-co", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name := range strings.Lines(list) {
		name = strings.TrimSuffix(name, "\n")
		if skipped(name) {
			continue
		}
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if utf8.Valid(text) {
			files[name] = string(text)
		}
	}
	return files, nil
}

// skipped reports whether a file is generated, recorded or a test's input.
func skipped(name string) bool {
	for _, prefix := range []string{"gen/", "internal/ui/dist/", "bench/results/", "tools/prose/"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.Contains(name, "/testdata/fuzz/") || strings.Contains(name, "node_modules")
}

func git(root string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", args...) //nolint:gosec // the arguments are those of this program
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
