package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
)

// newSchema returns the command that prints the JSON Schema of packs.
func newSchema(p *output.Printer) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of packs, for editors",
		Long: `Prints the JSON Schema of packs: the newest version of the PromptPack format with descriptions, and
the keys of Pawl under workflow.engine.x_pawl. An editor with a YAML language server checks a pack
that begins with the line

# yaml-language-server: $schema=./promptpack.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := pack.EditorSchema()
			if err != nil {
				return err
			}
			_, err = p.Out.Write(text)
			return err
		},
	}
}
