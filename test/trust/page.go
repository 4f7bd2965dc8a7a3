package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// promise is one row of the page.
type promise struct {
	area  string
	text  string
	tests []test
	// sim means that the row names `make sim`.
	sim bool
	// rest is what else the row says can be run: longer than this may take.
	rest []string
}

// test is one Go test: the directory of its package below the module, and its name.
type test struct{ dir, name string }

var (
	namedTest = regexp.MustCompile("`([a-z0-9/]+): (Test[A-Za-z0-9]+)`")
	command   = regexp.MustCompile("`((?:make |pawl |pawl-bench |[A-Z_]+=)[^`]+)`")
)

// parse reads the promises of a page in their order. Its tables begin with a line
// `| promise | proof |`; each row has two cells, the promise and what proves it.
func parse(page string) ([]promise, error) {
	var all []promise
	area, inside := "", false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			area, inside = strings.TrimPrefix(line, "## "), false
		case strings.HasPrefix(line, "| promise |"):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|--"):
			p, err := row(area, line)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the page has no row below `| promise |`")
	}
	return all, nil
}

// row reads one line of a table.
func row(area, line string) (promise, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 2 {
		return promise{}, fmt.Errorf("a row has %d cells, want 2: %s", len(cells), line)
	}
	p := promise{area: area, text: strings.TrimSpace(cells[0])}
	for _, m := range namedTest.FindAllStringSubmatch(cells[1], -1) {
		p.tests = append(p.tests, test{dir: m[1], name: m[2]})
	}
	for _, m := range command.FindAllStringSubmatch(cells[1], -1) {
		if m[1] == "make sim" {
			p.sim = true
		} else {
			p.rest = append(p.rest, m[1])
		}
	}
	if len(p.tests) == 0 && !p.sim {
		return promise{}, fmt.Errorf("nothing that can be run proves: %s", p.text)
	}
	return p, nil
}
