package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/project"
	"github.com/pawl-dev/pawl/internal/output"
)

func newInit(p *output.Printer) *cobra.Command {
	var o project.Options
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Create a small project: an agent, its app and its tests",
		Long: `Creates a complete project in a new directory: a pack, an app that executes its prompts
and tools, tests, a README, and files for CI and containers. The tests and the first
run need no model and no key: a recorded model answers until OPENAI_API_KEY is set.

Templates:
` + templateList() + `
The command never overwrites a file.`,
		Example: `  pawl init shop
  pawl init shop --lang typescript --template approval`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.Dir = args[0]
			created, err := project.Create(o)
			if err != nil {
				return output.Usage(err)
			}
			return printCreated(p, created)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Language, "lang", project.Languages[0], "language of the app: "+strings.Join(project.Languages, ", "))
	fs.StringVar(&o.Template, "template", project.Templates[0].Name, "kind of agent: "+strings.Join(project.TemplateNames(), ", "))
	fs.StringVar(&o.Name, "name", "", "name of the project and its pack (default: the directory's name)")
	completeFrom(cmd, "lang", project.Languages...)
	completeFrom(cmd, "template", project.TemplateNames()...)
	return cmd
}

func templateList() string {
	var b strings.Builder
	for _, t := range project.Templates {
		b.WriteString("  " + t.Name + strings.Repeat(" ", 10-len(t.Name)) + t.About + "\n")
	}
	return b.String()
}

func printCreated(p *output.Printer, c *project.Created) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{
			{Key: "dir", Value: c.Dir}, {Key: "name", Value: c.Name}, {Key: "language", Value: c.Language},
			{Key: "template", Value: c.Template.Name}, {Key: "files", Value: c.Files},
		})
	}
	p.Printf("%s: an agent that %s\n", p.Good("created "+c.Dir), c.Template.About)
	for _, file := range c.Files {
		p.Printf("  %s\n", filepath.Join(c.Dir, filepath.FromSlash(file)))
	}
	p.Printf("\nnext:\n  cd %s\n", c.Dir)
	switch c.Language {
	case "python":
		p.Printf("  python3 -m venv .venv && .venv/bin/pip install -r requirements.txt\n  .venv/bin/pytest\n")
	case "typescript":
		p.Printf("  npm install\n  npm test\n")
	}
	p.Printf("  pawl dev\n")
	return nil
}
