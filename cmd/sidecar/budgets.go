package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/command"
	"github.com/pawl-dev/pawl/internal/command/budget"
)

func newBudgets(p *cli.Printer) *cobra.Command {
	c := &command.Client{}
	cmd := budget.NewList(p, c)
	c.Bind(cmd)
	return cmd
}
