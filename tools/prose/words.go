package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/golangci/misspell"
)

//go:embed words.txt
var wordList string

var (
	replacements, forbidden = readWords(wordList)
	spelling                = func() *misspell.Replacer { r := misspell.New(); r.Compile(); return r }()
	codeSpan                = regexp.MustCompile("``[^`]+``|`[^`]*`")
	linkTarget              = regexp.MustCompile(`\]\([^)]*\)`)
	hunk                    = regexp.MustCompile(`^@@ -\S+ \+(\d+)`)
	slashed                 = regexp.MustCompile(`(?:^|[\s;{}(),])//+(.*)$`)
	starred                 = regexp.MustCompile(`^\s*/?\*+(.*)$`)
	hashed                  = regexp.MustCompile(`(?:^|\s)#+(.*)$`)
	logged                  = regexp.MustCompile(`(?i)\blog\w*\.(?:\w+\.)?(?:debug|info|warn|warning|error|log)\w*\(.*?["'\x60]([^"'\x60]*)["'\x60]`)
)

// readWords reads the list: what to write instead of each word, and an expression that finds them.
func readWords(list string) (map[string]string, *regexp.Regexp) {
	instead, patterns := map[string]string{}, []string{}
	for line := range strings.Lines(list) {
		word, replacement, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if ok && !strings.HasPrefix(line, "#") {
			instead[word] = replacement
			pattern := regexp.QuoteMeta(word)
			if !strings.HasSuffix(word, ":") {
				pattern += `\b`
			}
			patterns = append(patterns, pattern)
		}
	}
	return instead, regexp.MustCompile(`(?i)\b(?:` + strings.Join(patterns, "|") + `)`)
}

// checkLine returns the forbidden and the misspelled words of one line of prose.
func checkLine(file string, line int, text string) []finding {
	var all []finding
	for _, word := range forbidden.FindAllString(text, -1) {
		all = append(all, finding{file, line, fmt.Sprintf("%q: write %s", word, replacements[strings.ToLower(word)])})
	}
	_, diffs := spelling.Replace(text)
	for _, d := range diffs {
		all = append(all, finding{file, line, fmt.Sprintf("%q: write %q", d.Original, d.Corrected)})
	}
	return all
}

// proseOf returns the lines of a page without code, and without the targets of links.
func proseOf(page string) []string {
	all := lines(page, true)
	for i, line := range all {
		all[i] = linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(line, "``"), "]")
	}
	return all
}

// changedLine is a line that differs from the merge base.
type changedLine struct {
	file string
	line int
	text string
}

// changedLines returns the changed lines of source code. Without the branch base, or without a
// commit in common, there are none.
func changedLines(root, base string) ([]changedLine, error) {
	from, err := git(root, "merge-base", "HEAD", base)
	if err != nil {
		return nil, nil //nolint:nilerr // a clone of one branch, or of one commit, has nothing to compare with
	}
	diff, err := git(root, "diff", "-U0", "--no-color", strings.TrimSpace(from), "--", "*.go", "*.py", "*.ts", "*.tsx", "*.proto",
		":!gen", ":!internal/ui/dist", ":!tools/prose")
	if err != nil {
		return nil, err
	}
	var all []changedLine
	file, line := "", 0
	for text := range strings.Lines(diff) {
		text = strings.TrimSuffix(text, "\n")
		switch {
		case strings.HasPrefix(text, "+++ "):
			file = strings.TrimPrefix(strings.TrimPrefix(text, "+++ "), "b/")
		case strings.HasPrefix(text, "@@"):
			line, _ = strconv.Atoi(hunk.FindStringSubmatch(text)[1])
		case strings.HasPrefix(text, "+"):
			all = append(all, changedLine{file, line, text[1:]})
			line++
		}
	}
	return all, nil
}

// spoken returns what a changed line says to people.
func spoken(c changedLine, source string) string {
	return spokenIn(c.file, c.text, docstrings(c.file, source)[c.line])
}

// spokenIn returns what a line of source code says to people: its comment, its log message, or the
// line itself if it is documented, which means in a docstring of Python.
func spokenIn(file, line string, documented bool) string {
	var parts []string
	for _, pattern := range patternsOf(file) {
		if m := pattern.FindStringSubmatch(line); m != nil {
			parts = append(parts, m[1])
		}
	}
	if documented {
		parts = append(parts, line)
	}
	return codeSpan.ReplaceAllString(strings.Join(parts, " "), "``")
}

func patternsOf(file string) []*regexp.Regexp {
	if strings.HasSuffix(file, ".py") {
		return []*regexp.Regexp{hashed, logged}
	}
	return []*regexp.Regexp{slashed, starred, logged}
}
