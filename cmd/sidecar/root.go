package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/script"
)

const rootHelp = `Pawl runs PromptPack agent loops as a sidecar. Every loop is bounded, and every
acknowledged change is durable.

Start with 'pawl demo', or with 'pawl init' and 'pawl dev'.

Exit codes: 0 done; 1 a fault was found or a request was refused; 2 wrong usage,
unreadable input, or a server that cannot be reached.`

// execute runs one command line, prints its error and returns the exit code.
func execute(ctx context.Context, p *output.Printer, args []string) int {
	started := false
	root := newRoot(p, &started)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if output.IsReported(err) {
		return output.ExitCode(err)
	}
	if err != nil && (!started || badInput(err)) {
		err = output.Usage(err)
	}
	if err != nil {
		_, words, _ := root.Find(args)
		p.FailTo(err, words)
	}
	return output.ExitCode(err)
}

// badInput reports whether err is about the configuration or a script file. The exit code is then that of wrong
// usage.
func badInput(err error) bool {
	var settings *config.Error
	var script *script.Error
	return errors.As(err, &settings) || errors.As(err, &script)
}

// newRoot returns the tree of commands, which print with p. When a command line was parsed without an error, *started
// becomes true. If it is still false, execute reports an error as wrong usage.
func newRoot(p *output.Printer, started *bool) *cobra.Command {
	root := group("pawl", "Runs PromptPack agent loops durably",
		newInit(p), newDev(p), newServe(p), newConfig(p), newValidate(p), newSchema(p), newGraph(p), newCodegen(p), newRun(p), newDemo(p),
		newRuns(p), newPacks(p), newEvals(p), newDeliveries(p), newBudgets(p), newUsage(p), newApprovals(p), newSchedules(p), newLimits(p), newWorkers(p), newPartitions(p, newPartitionsSplit(p)), newCheck(p), newBackup(p, newBackupVerify(p), newBackupPrune(p)), newRestore(p), newStats(p), newCompact(p), newMigrate(p), newSalvage(p), newRotateKey(p), newToken(p), newTools(p), newMCP(p), newAudit(p), newHealth(p), newVersion(p),
	)
	addExamples(root)
	root.Long = rootHelp
	root.Version = versions() // without a template: the package text/template makes the program 6 MB larger
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	root.SetFlagErrorFunc(unknownFlag)
	format := "table"
	root.PersistentFlags().StringVarP(&format, "output", "o", format, "table or json")
	completeFrom(root, "output", "table", "json")
	nameUsage(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if format != "table" && format != "json" {
			return fmt.Errorf("--output %q is none of table, json", format)
		}
		p.JSON, *started = format == "json", true
		return openAsOwner(p, cmd, args)
	}
	return root
}

// nameUsage adds the usage of a command to the errors about the number of its arguments.
func nameUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil && cmd.RunE != nil && !cmd.HasSubCommands() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w\nusage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		nameUsage(child)
	}
}

// group returns a command that only has subcommands.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(children...)
	return cmd
}

// unknownCommand returns an error that lists the commands and suggests the nearest one.
func unknownCommand(cmd *cobra.Command, given string) error {
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	text := fmt.Sprintf("unknown command %q for %q; commands: %s", given, cmd.CommandPath(), strings.Join(names, ", "))
	if meant := nearest.Word(given, names); meant != "" {
		text += "\ndid you mean " + meant + "?"
	}
	return errors.New(text)
}

// unknownFlag adds the most similar flag to the error as a suggestion. If the command is unknown too, the error is about the command.
func unknownFlag(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasSubCommands() && cmd.ValidateArgs(args) != nil {
		return unknownCommand(cmd, args[0])
	}
	_, given, ok := strings.Cut(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if meant := nearest.Word(given, names); meant != "" {
		return fmt.Errorf("%w\ndid you mean --%s?", err, meant)
	}
	return err
}

// completeFrom lets the shell complete a flag from fixed words. It panics if the flag does not exist; no input of a user can cause this.
func completeFrom(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err)
	}
}

// completeDir lets the shell complete a flag with directories.
func completeDir(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagDirname(flag); err != nil {
		panic(err)
	}
}
