package project

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed all:templates
var templates embed.FS

// sampleName is the name of the project in the template files. Create replaces it. It is a valid pack name, so that the templates can be
// run without changes.
const sampleName = "my-agent"

// Template is a kind of project that `pawl init` can write.
type Template struct {
	Name string
	// About describes in a few words what the agent does.
	About string
	// Input is an example of a first message to the agent.
	Input string
	// Language is the only language of the template, because its library has no other one. "" is each of [Languages].
	Language string
}

// Templates are all kinds of projects. The first is the default.
var Templates = []Template{
	{Name: "tools", About: "calls a tool before it answers", Input: "Where is order 17?"},
	{Name: "chat", About: "talks with a person until the person says goodbye", Input: "Hello"},
	{Name: "approval", About: "refunds orders; a person approves large refunds", Input: "Refund order 17: 150"},
	{Name: "loop", About: "writes, criticizes, and writes again, with a limit", Input: "Write about ratchets."},
	{Name: "team", About: "asks two other agents", Input: "Are ratchets good?"},
	{Name: "pydantic-ai", About: "is written with Pydantic AI", Input: "Where is order 17?", Language: "python"},
	{Name: "openai-agents", About: "is written with the OpenAI Agents SDK", Input: "Where is order 17?", Language: "python"},
	{Name: "langgraph", About: "is written with LangGraph", Input: "Where is order 17?", Language: "python"},
	{Name: "ai-sdk", About: "is written with the Vercel AI SDK", Input: "Where is order 17?", Language: "typescript"},
}

// Languages are the languages in which projects can be written. The first is the default.
var Languages = []string{"python", "typescript"}

// names matches valid project names. They must be valid for packs, Python distributions and npm packages.
var names = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// renamed maps names of template files to their names in the project. The templates have other names, because files
// with these names would have an effect in this repository.
var renamed = map[string]string{"gitignore": ".gitignore", "github": ".github/workflows"}

// Options select the project to write.
type Options struct {
	// Dir is the directory to write to. Create creates it if it does not exist.
	Dir string
	// Name is the name of the project and of its pack. Default: the last part of Dir.
	Name string
	// Language is one of [Languages]. Default: the language of the template, or the first of them.
	Language string
	// Template is the name of one of [Templates]. Default: the first of them.
	Template string
	// Packages is a directory that `make dist` wrote. [Created.Install] takes the client from there. Default: the published client, from
	// PyPI or npm.
	Packages string
}

// Created describes a project that was written.
type Created struct {
	Dir, Name, Language string
	Template            Template
	// Files are the paths of the files, relative to Dir, sorted.
	Files []string
	// install are the commands of Install.
	install [][]string
}

// Create writes a project. It never overwrites a file: if one of the files exists, it writes no file.
func Create(o Options) (*Created, error) {
	c, err := o.resolve()
	if err != nil {
		return nil, err
	}
	content := map[string]string{}
	for _, part := range c.parts() {
		if err := c.read(content, part); err != nil {
			return nil, err
		}
	}
	for file := range content {
		c.Files = append(c.Files, file)
	}
	slices.Sort(c.Files)
	for _, file := range c.Files {
		if _, err := os.Lstat(filepath.Join(c.Dir, filepath.FromSlash(file))); err == nil {
			return nil, fmt.Errorf("%s exists already in %s: nothing was written; name an empty directory", file, c.Dir)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, file := range c.Files {
		if err := write(filepath.Join(c.Dir, filepath.FromSlash(file)), content[file]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// resolve checks the options and fills in the defaults.
func (o Options) resolve() (*Created, error) {
	if o.Dir == "" {
		return nil, errors.New("the directory of the project is missing")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &Created{Dir: o.Dir, Name: o.Name, Language: o.Language}
	if c.Name == "" {
		c.Name = strings.ToLower(strings.NewReplacer("_", "-", " ", "-", ".", "-").Replace(filepath.Base(dir)))
	}
	if !names.MatchString(c.Name) {
		return nil, fmt.Errorf("the name %q of the project is not valid: a lower-case letter, then letters, digits and \"-\", at most 63; give another one with --name", c.Name)
	}
	name := o.Template
	if name == "" {
		name = Templates[0].Name
	}
	i := slices.IndexFunc(Templates, func(t Template) bool { return t.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the template %q is unknown: %s", name, strings.Join(TemplateNames(), ", "))
	}
	c.Template = Templates[i]
	if c.Language == "" {
		c.Language = cmp.Or(c.Template.Language, Languages[0])
	}
	if !slices.Contains(Languages, c.Language) {
		return nil, fmt.Errorf("the language %q is unknown: %s", c.Language, strings.Join(Languages, " or "))
	}
	if only := c.Template.Language; only != "" && only != c.Language {
		return nil, fmt.Errorf("the template %q is a project in %s: leave out --lang %s, or choose another template", name, only, c.Language)
	}
	c.install, err = installWith(c.Language, o.Packages)
	return c, err
}

// parts are the files and directories of the templates that make up the project. A file of a later part replaces a
// file of the same name. If a library runs the agent, its adapter makes the pack, so the project has no pack file.
func (c *Created) parts() []string {
	kind := "packs/" + c.Template.Name + ".pack.yaml"
	if c.Template.Language != "" {
		kind = c.Language + "/library"
	}
	return []string{"common", c.Language + "/common", kind, c.Language + "/" + c.Template.Name}
}

// TemplateNames returns the names of [Templates], in the same order.
func TemplateNames() []string {
	out := make([]string, 0, len(Templates))
	for _, t := range Templates {
		out = append(out, t.Name)
	}
	return out
}

// read adds a file of the templates, or all files of a directory, to into. It replaces the project's name and texts in them.
func (c *Created) read(into map[string]string, part string) error {
	root := path.Join("templates", part)
	return fs.WalkDir(templates, root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := templates.ReadFile(at)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(at, root), "/")
		if name == "" {
			name = sampleName + ".pack.yaml"
		}
		first, rest, _ := strings.Cut(name, "/")
		if to, ok := renamed[first]; ok {
			name = path.Join(to, rest)
		}
		into[strings.ReplaceAll(name, sampleName, c.Name)] = strings.NewReplacer(
			sampleName, c.Name, "ABOUT_TEMPLATE", c.Template.About, "EXAMPLE_INPUT", c.Template.Input).Replace(string(text))
		return nil
	})
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // Sources have the usual rights.
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // Sources have the usual rights.
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
