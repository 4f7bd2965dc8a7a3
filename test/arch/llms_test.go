package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
)

// TestAgentPages: llms.txt names every page for users, once, and nothing that is absent; the pack
// of the skill has no finding.
func TestAgentPages(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../llms.txt")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(raw), -1) {
		if named[link[1]]++; named[link[1]] > 1 {
			t.Errorf("llms.txt names %s twice", link[1])
		}
		if _, err := os.Stat(filepath.Join("../..", link[1])); err != nil {
			t.Errorf("llms.txt: %v", err)
		}
	}
	for _, pattern := range []string{"docs/*.md", "docs/getting-started/*.md", "docs/guides/*.md", "docs/reference/*.md", "docs/operations/*.md", "docs/skill/*.md"} {
		pages, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(pages) == 0 {
			t.Fatal(pattern, err)
		}
		for _, page := range pages {
			if name := strings.TrimPrefix(filepath.ToSlash(page), "../../"); named[name] == 0 && name != "docs/README.md" {
				t.Errorf("llms.txt does not name %s", name)
			}
		}
	}
	skill, err := os.ReadFile("../../docs/skill/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	packs := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(skill, -1)
	if len(packs) == 0 {
		t.Fatal("the skill has no pack")
	}
	for _, text := range packs {
		if loaded, found, err := pack.Load(text[1], pack.Options{}); err != nil || loaded == nil || len(found) > 0 {
			t.Errorf("the pack of the skill: %v, %v", found, err)
		}
	}
}
