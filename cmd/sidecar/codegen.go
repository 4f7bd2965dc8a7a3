package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/codegen"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
)

// generation holds the flags and the pack of `pawl codegen`.
type generation struct {
	lang, out, strict string
	check             bool
}

func newCodegen(p *output.Printer) *cobra.Command {
	g := generation{}
	cmd := &cobra.Command{
		Use:   "codegen --lang LANGUAGE [--out FILE] [--check] PACK",
		Short: "Write the types of a pack as a Python or TypeScript module",
		Long: `Writes a module with the types of a pack's events, artifacts and variables and of the arguments of its
tools, so that a misspelt name is a type error. PACK is a JSON or YAML file; - is standard input.
"pawl codegen" of the Python package and "npx pawl codegen" of the npm package do the same for their
language. docs/guides/typed-packs.md shows the use of the module.

Exit codes: 0 written, or with --check the file is up to date; 1 the pack has errors, or with --check
the file differs or is missing; 2 a file could not be read or written.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkChoice("lang", g.lang, codegen.Languages()...); err != nil {
				return output.Usage(err)
			}
			if g.check && g.out == "" {
				return output.Usage(errors.New("--check needs --out, the file to compare with"))
			}
			return g.run(p, args[0])
		},
	}
	cmd.Flags().StringVar(&g.lang, "lang", "", "language of the module: python or typescript (required)")
	cmd.Flags().StringVar(&g.out, "out", "", "file to write (default: standard output)")
	cmd.Flags().BoolVar(&g.check, "check", false, "write no file; report whether --out is up to date")
	completeFrom(cmd, "lang", codegen.Languages()...)
	bindStrict(cmd, &g.strict)
	return cmd
}

func (g *generation) run(p *output.Printer, path string) error {
	content, err := readPack(path)
	if err != nil {
		return output.Usage(err)
	}
	loaded, found, err := pack.Load(content, pack.Options{Strict: g.strict})
	if err != nil {
		return output.Usage(err)
	}
	if loaded == nil {
		return refusedPack(p, path, found)
	}
	made, err := codegen.Generate(loaded, g.lang)
	if err != nil {
		return err
	}
	switch {
	case g.check:
		return g.compare(p, made)
	case g.out == "":
		_, err = p.Out.Write(made)
	default:
		err = replaceFile(g.out, made)
	}
	if err != nil {
		return output.Usage(err)
	}
	return nil
}

// compare returns an error if the content of the output file is not the generated content in made.
func (g *generation) compare(p *output.Printer, made []byte) error {
	there, err := os.ReadFile(g.out)
	switch {
	case errors.Is(err, os.ErrNotExist):
		p.Warnf("%s: %s", g.out, p.Bad("missing"))
		return output.Fault()
	case err != nil:
		return output.Usage(err)
	case !bytes.Equal(there, made):
		p.Warnf("%s: %s; write it again without --check", g.out, p.Bad("not up to date"))
		return output.Fault()
	}
	return nil
}

// replaceFile replaces a file in one step, so that no reader sees a file with only a part of the content. An existing file keeps its
// permissions, and a link keeps pointing to it.
func replaceFile(path string, content []byte) error {
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".pawl-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err := errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
