package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newConfig(p *output.Printer) *cobra.Command {
	return group("config", "Check the settings of a sidecar", newConfigCheck(p))
}

func newConfigCheck(p *output.Printer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find all faults of the settings of a sidecar, and of the files that they name",
		Long: `Reads the settings as 'pawl serve' does, from --config, from PAWL_* variables and from flags, and all
files that they name: certificates, keys, tokens, packs, quotas, prices, limits, budgets, schedules,
models, agents and MCP servers. It prints all faults at once, and warnings about likely mistakes:
an expired certificate, a data directory without a store. It changes nothing, opens no store, binds no
address and connects to nothing, so that it may run beside the sidecar, for example before SIGHUP.
Run it with the variables and flags of the sidecar and as its user, who may be allowed to read other
files. Root becomes the owner of the data directory.

Exit codes: 0 no fault; 2 there are faults.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd.Flags())
			if err := asOwner(p, c.Data); err != nil {
				return err
			}
			err = withFiles(c, err)
			if faults, ok := errors.AsType[*config.Error](err); ok && p.JSON {
				return errors.Join(output.WriteJSON(p.Out, output.Object{{Key: "ok", Value: false}, {Key: "faults", Value: faults.Faults}}), &output.Exit{Code: output.ExitUsage, Silent: true})
			}
			if err != nil {
				return output.Usage(err)
			}
			warnings := server.Warnings(c, time.Now())
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{{Key: "ok", Value: true}, {Key: "faults", Value: []config.Fault{}}, {Key: "warnings", Value: append([]config.Fault{}, warnings...)}})
			}
			for _, warning := range warnings {
				p.Warnf("%s %s", p.Warn("warning:"), warning)
			}
			p.Printf("the settings and their files have no faults\n")
			return nil
		},
	}
	config.Flags(cmd.Flags())
	completeFrom(cmd, "log-level", "debug", "info", "warn", "error")
	completeFrom(cmd, "log-format", "text", "json")
	return cmd
}
