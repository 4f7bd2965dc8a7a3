package project_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/project"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/pack"
)

// TestCreate writes each project: its pack has no fault and no warning, and no file has a text
// of the template left. The CI runs the tests of the projects with the built packages.
func TestCreate(t *testing.T) {
	t.Parallel()
	for _, language := range project.Languages {
		for _, template := range project.TemplateNames() {
			i := slices.IndexFunc(project.Templates, func(t project.Template) bool { return t.Name == template })
			if only := project.Templates[i].Language; only != "" && only != language {
				continue
			}
			packs := 0
			dir := filepath.Join(t.TempDir(), "new", "Web_Shop")
			created, err := project.Create(project.Options{Dir: dir, Language: language, Template: template})
			if err != nil {
				t.Fatal(err)
			}
			if created.Name != "web-shop" {
				t.Errorf("the name is %q", created.Name)
			}
			for _, file := range created.Files {
				text, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				for _, leftover := range []string{"my-agent", "ABOUT_TEMPLATE", "EXAMPLE_INPUT"} {
					if bytes.Contains(text, []byte(leftover)) || strings.Contains(file, leftover) {
						t.Errorf("%s %s: %s has %q", language, template, file, leftover)
					}
				}
				if strings.HasSuffix(file, ".pack.yaml") {
					packs++
					loaded, found, err := pack.Load(text, pack.Options{})
					if err != nil || len(found) > 0 || loaded.ID != "web-shop" {
						t.Errorf("%s: %v, %v", file, found, err)
					}
				}
			}
			if library := project.Templates[i].Language != ""; library == (packs == 1) {
				t.Errorf("%s %s: %d packs", language, template, packs)
			}
		}
	}
}

// TestCompose: the sidecar of compose.yaml has a configuration that it serves with, and its page
// listens where a published port reaches it.
func TestCompose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		language, template string
		packs              []string
	}{
		{"python", "tools", []string{"/packs/shop.pack.yaml"}},
		{"typescript", "tools", []string{"/packs/shop.pack.yaml"}},
		{"python", "langgraph", nil},
		{"typescript", "ai-sdk", nil},
	} {
		language, dir := c.language+" "+c.template, t.TempDir()
		if _, err := project.Create(project.Options{Dir: dir, Name: "shop", Language: c.language, Template: c.template}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var compose struct {
			Services map[string]struct {
				Command     []string
				Environment map[string]string
				Ports       []string
				NetworkMode string                                `yaml:"network_mode"`
				DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
			}
		}
		if err := yaml.Unmarshal(raw, &compose); err != nil {
			t.Fatal(err)
		}
		sidecar, app := compose.Services["sidecar"], compose.Services["app"]
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		config.Flags(flags)
		if err := flags.Parse(sidecar.Command[1:]); err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(flags, func(name string) (string, bool) {
			value, ok := sidecar.Environment[name]
			return value, ok
		})
		if err != nil {
			t.Fatal(err)
		}
		// A container in the network of another one has no network after a restart of that one.
		if app.Environment["PAWL_ADDR"] != "sidecar:7291" || loaded.Listen != "0.0.0.0:7291" || !loaded.InsecureBind || app.NetworkMode != "" {
			t.Errorf("%s: the app calls %q over %q, the sidecar listens at %q", language, app.Environment["PAWL_ADDR"], app.NetworkMode, loaded.Listen)
		}
		if app.DependsOn["sidecar"].Condition != "service_healthy" {
			t.Errorf("%s: the app waits for %v", language, app.DependsOn)
		}
		if len(sidecar.Ports) != 1 || sidecar.Ports[0] != "127.0.0.1:7292:7292" || loaded.HTTP != "0.0.0.0:7292" {
			t.Errorf("%s: %v does not reach the page at %q", language, sidecar.Ports, loaded.HTTP)
		}
		if !slices.Equal(loaded.Packs, c.packs) {
			t.Errorf("%s: packs %v", language, loaded.Packs)
		}
	}
}

// TestRefused: Create refuses bad options and existing files, and then writes no file.
func TestRefused(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "README.md"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for _, c := range []struct {
		o    project.Options
		want string
	}{
		{project.Options{}, "the directory of the project is missing"},
		{project.Options{Dir: filepath.Join(empty, "9")}, "give another one with --name"},
		{project.Options{Dir: empty, Name: "Shop"}, `the name "Shop" of the project is not valid`},
		{project.Options{Dir: empty, Name: "shop", Language: "cobol"}, `the language "cobol" is unknown: python or typescript`},
		{project.Options{Dir: empty, Name: "shop", Template: "x"}, `the template "x" is unknown: tools, chat, approval, loop, team, pydantic-ai, openai-agents, langgraph, ai-sdk`},
		{project.Options{Dir: empty, Name: "shop", Language: "typescript", Template: "langgraph"}, `the template "langgraph" is a project in python: leave out --lang typescript`},
		{project.Options{Dir: empty, Name: "shop", Packages: full}, full + " has no pawl_client-*-py3-none-*.whl of this platform: `make dist` builds it"},
		{project.Options{Dir: full, Name: "shop"}, "README.md exists already in " + full + ": nothing was written"},
	} {
		if _, err := project.Create(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	for _, dir := range []string{empty, full} {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 1 {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}

// Create writes a project into a new directory.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "pawl-init-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	made, err := project.Create(project.Options{Dir: filepath.Join(dir, "shop"), Template: "loop"})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(made.Name + " " + made.Language + "\n")
	// Output: shop python
}
