package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/project"
	"github.com/pawl-dev/pawl/internal/output"
)

func newInit(p *output.Printer) *cobra.Command {
	var o project.Options
	noInstall := false
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Create a small project: an agent, its app and its tests",
		Long: `Creates a complete project in a new directory: a pack, an app that executes its prompts
and tools, tests, a README, and files for CI and containers. The tests and the first
run need no model and no key: a recorded model answers until OPENAI_API_KEY is set.
A project of a library of agents (Pydantic AI, OpenAI Agents SDK, LangGraph, Vercel AI SDK)
has no pack file: the adapter of the library makes the pack.

After that it installs what the project needs: with python3 into .venv, or with npm into
node_modules.

Templates:
` + templateList() + `
The command never overwrites a file.`,
		Example: `  pawl init shop
  pawl init shop --lang typescript --template approval
  pawl init shop --template langgraph`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if noInstall && o.Packages != "" {
				return output.Usage(errors.New("--no-install and --packages exclude each other"))
			}
			o.Dir = args[0]
			created, err := project.Create(o)
			if err != nil {
				return output.Usage(err)
			}
			if !noInstall {
				err = created.Install(cmd.Context(), func(command string) {
					if !p.JSON {
						p.Printf("%s %s\n", p.Dim("in "+created.Dir+":"), command)
					}
				})
			}
			if err != nil {
				return fmt.Errorf("the project is written to %s, but what it needs is not installed: %w\ninstall it yourself: cd %s && %s",
					created.Dir, err, created.Dir, created.InstallText())
			}
			return printCreated(p, created, !noInstall)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Language, "lang", "", "language of the app: "+strings.Join(project.Languages, ", ")+" (default: the template's, or "+project.Languages[0]+")")
	fs.StringVar(&o.Template, "template", project.Templates[0].Name, "kind of agent: "+strings.Join(project.TemplateNames(), ", "))
	fs.StringVar(&o.Name, "name", "", "name of the project and its pack (default: the directory's name)")
	fs.BoolVar(&noInstall, "no-install", false, "write the files only")
	fs.StringVar(&o.Packages, "packages", "", "directory of built packages (make dist), to install the client from there and not from PyPI or npm")
	completeFrom(cmd, "lang", project.Languages...)
	completeFrom(cmd, "template", project.TemplateNames()...)
	return cmd
}

func templateList() string {
	var b strings.Builder
	for _, t := range project.Templates {
		b.WriteString("  " + t.Name + strings.Repeat(" ", 15-len(t.Name)) + t.About + "\n")
	}
	return b.String()
}

func printCreated(p *output.Printer, c *project.Created, installed bool) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{
			{Key: "dir", Value: c.Dir}, {Key: "name", Value: c.Name}, {Key: "language", Value: c.Language},
			{Key: "template", Value: c.Template.Name}, {Key: "files", Value: c.Files}, {Key: "installed", Value: installed},
		})
	}
	p.Printf("%s: an agent that %s\n", p.Good("created "+c.Dir), c.Template.About)
	for _, file := range c.Files {
		p.Printf("  %s\n", filepath.Join(c.Dir, filepath.FromSlash(file)))
	}
	p.Printf("\nnext:\n  cd %s\n", c.Dir)
	if !installed {
		p.Printf("  %s\n", c.InstallText())
	}
	next := map[string][2]string{"python": {".venv/bin/pawl dev", ".venv/bin/pytest"}, "typescript": {"npx pawl dev", "npm test"}}[c.Language]
	p.Printf("  %-20s # sidecar, web page and app; restarts what you change\n  %-20s # the tests\n", next[0], next[1])
	return nil
}
