package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/test/docpage"
)

// TestConfigurationPage: docs/reference/configuration.md lists every setting of serve, and
// docs/reference/limits.md every limit, with their defaults.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	var settings, limits strings.Builder
	settings.WriteString("| flag | environment | default | meaning |\n|---|---|---|---|\n")
	limits.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	flagSet(t).VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "limits-") {
			fmt.Fprintf(&limits, "| `--%s` | %s | %s |\n", f.Name, defaultOf(f), docpage.Cell(f.Usage))
			return
		}
		fmt.Fprintf(&settings, "| `--%s` | `%s` | %s | %s |\n", f.Name, EnvName(f.Name), defaultOf(f), docpage.Cell(f.Usage))
	})
	docpage.Check(t, "../../docs/reference/configuration.md", "settings", settings.String())
	docpage.Check(t, "../../docs/reference/limits.md", "limits", limits.String())
}

// TestFilesPage: the table of files in docs/reference/configuration.md names every setting that names a file, so that it says whether SIGHUP
// reads the file again.
func TestFilesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, files, _ := strings.Cut(string(page), "\n## Files\n")
	files, _, _ = strings.Cut(files, "\n## ")
	named := regexp.MustCompile(`^(\S+ )?file `)
	flagSet(t).VisitAll(func(f *pflag.Flag) {
		if named.MatchString(f.Usage) && !strings.Contains(files, "`--"+f.Name+"`") {
			t.Errorf("--%s (%s) is not in the table of files", f.Name, f.Usage)
		}
	})
}

func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]":
		return "none"
	}
	return "`" + f.DefValue + "`"
}
