package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/command"
	"github.com/pawl-dev/pawl/internal/output"
)

func newBudgets(p *output.Printer) *cobra.Command {
	c := &command.Client{}
	cmd := command.NewBudgets(p, c)
	c.Bind(cmd)
	return cmd
}
