package main

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)`)
	pagePath = regexp.MustCompile(`(?:^|[^\w/.-])(docs/[A-Za-z0-9_./-]+\.md)(?:#([a-z0-9_-]+))?`)
	scheme   = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	heading  = regexp.MustCompile(`^#{1,6} (.*)`)
	anchorID = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	inLink   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// checkLinks returns the links of pages, and the paths of pages in all other files, that lead to no
// file or no heading.
func checkLinks(root string, files map[string]string) []finding {
	var all []finding
	known := map[string]map[string]bool{}
	dead := func(target, anchor string) string {
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			return "there is no such file"
		}
		if anchor == "" || !strings.HasSuffix(target, ".md") {
			return ""
		}
		if known[target] == nil {
			known[target] = anchors(files[target])
		}
		if !known[target][anchor] {
			return "the page has no such heading"
		}
		return ""
	}
	for name := range keys(files) {
		page := strings.HasSuffix(name, ".md")
		for i, line := range lines(files[name], page) {
			for _, m := range pagePath.FindAllStringSubmatch(line, -1) {
				if why := dead(m[1], m[2]); why != "" {
					all = append(all, finding{name, i + 1, fmt.Sprintf("dead reference %q: %s", strings.TrimSuffix(m[1]+"#"+m[2], "#"), why)})
				}
			}
			if !page {
				continue
			}
			for _, m := range mdLink.FindAllStringSubmatch(line, -1) {
				if scheme.MatchString(m[1]) {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				target := name
				if file != "" {
					target = path.Join(path.Dir(name), file)
				}
				if why := dead(target, anchor); why != "" {
					all = append(all, finding{name, i + 1, fmt.Sprintf("dead link %q: %s", m[1], why)})
				}
			}
		}
	}
	return all
}

// lines splits a text. Of a page the lines of code blocks are empty.
func lines(text string, page bool) []string {
	all := strings.Split(text, "\n")
	if page {
		blankCode(all)
	}
	return all
}

func blankCode(all []string) {
	code := false
	for i, line := range all {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		if code || fence {
			all[i] = ""
		}
	}
}

// anchors are the names that links to the headings of a page have, as GitHub makes them.
func anchors(page string) map[string]bool {
	names, times := map[string]bool{}, map[string]int{}
	for _, line := range lines(page, true) {
		for _, m := range anchorID.FindAllStringSubmatch(line, -1) {
			names[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		text := inLink.ReplaceAllString(m[1], "$1")
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")
		if n := times[slug]; n > 0 {
			names[fmt.Sprintf("%s-%d", slug, n)] = true
		}
		names[slug] = true
		times[slug]++
	}
	return names
}
