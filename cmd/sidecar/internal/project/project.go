package project

import (
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

// sampleName is the project's name in the files of the templates; Create replaces it. It is a valid
// name of a pack, so the templates are programs that run as they are.
const sampleName = "my-agent"

// Template is a kind of project.
type Template struct {
	Name string
	// About says in a few words what the agent does.
	About string
	// Input is a first message that shows what the agent does.
	Input string
}

// Templates are all kinds of projects, the default first.
var Templates = []Template{
	{"tools", "calls a tool before it answers", "Where is order 17?"},
	{"chat", "talks with a person until the person says goodbye", "Hello"},
	{"approval", "refunds orders; a person approves large refunds", "Refund order 17: 150"},
	{"loop", "writes, criticizes, and writes again, with a limit", "Write about ratchets."},
	{"team", "asks two other agents", "Are ratchets good?"},
}

// Languages are the languages of the projects, the default first.
var Languages = []string{"python", "typescript"}

// names are valid names of projects: those of packs, of Python distributions and of npm packages.
var names = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// renamed are files that have another name in the project: a file of that name would act in
// this repository.
var renamed = map[string]string{"gitignore": ".gitignore", "github": ".github/workflows"}

// Options say which project to write.
type Options struct {
	// Dir is the directory to write to; it is created when it does not exist.
	Dir string
	// Name is the name of the project and of its pack. Default: the last part of Dir.
	Name string
	// Language is one of [Languages]. Default: the first.
	Language string
	// Template is the name of one of [Templates]. Default: the first.
	Template string
}

// Created is a project that was written.
type Created struct {
	Dir, Name, Language string
	Template            Template
	// Files are the paths below Dir, sorted.
	Files []string
}

// Create writes a project. It never overwrites a file: if one of its files exists, it writes none.
func Create(o Options) (*Created, error) {
	c, err := o.resolve()
	if err != nil {
		return nil, err
	}
	content := map[string]string{}
	for _, part := range []string{"packs/" + c.Template.Name + ".pack.yaml", c.Language + "/common", c.Language + "/" + c.Template.Name} {
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
	if c.Language == "" {
		c.Language = Languages[0]
	}
	if !slices.Contains(Languages, c.Language) {
		return nil, fmt.Errorf("the language %q is unknown: %s", c.Language, strings.Join(Languages, " or "))
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
	return c, nil
}

// TemplateNames returns the names of [Templates] in their order.
func TemplateNames() []string {
	out := make([]string, 0, len(Templates))
	for _, t := range Templates {
		out = append(out, t.Name)
	}
	return out
}

// read adds the files of a part of the templates, a file or a directory, with the project's
// name and texts in them.
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
