package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newServe(p *output.Printer) *cobra.Command {
	printConfig, exitWithStdin := false, false
	cmd := &cobra.Command{
		Use:   "serve --data DIR | serve --store URL",
		Short: "Serve runs over gRPC",
		Long: `Serves runs over gRPC, on a Unix socket and as JSON over HTTP. It reads settings from a YAML file
(--config), then from PAWL_* environment variables (PAWL_TLS_CERT for --tls-cert), then from flags.
When it is ready, it prints one line of JSON with the bound addresses on standard output. On SIGTERM it
finishes the calls in flight and exits with 0.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd.Flags())
			if printConfig && onlyData(err) {
				return showConfig(p, c)
			}
			if err == nil {
				ctx := cmd.Context()
				if exitWithStdin {
					ctx = untilEnd(ctx, cmd.InOrStdin())
				}
				err = server.Serve(ctx, c, p.Out, p.Err)
			} else {
				err = output.Usage(withFiles(c, err))
			}
			return logged(c, p, err)
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the settings in effect and exit")
	cmd.Flags().BoolVar(&exitWithStdin, "exit-with-stdin", false, "stop as on SIGTERM when standard input ends: the program that started the sidecar holds a pipe, so the sidecar does not outlive it")
	completeFrom(cmd, "log-level", "debug", "info", "warn", "error")
	completeFrom(cmd, "log-format", "text", "json")
	return cmd
}

// untilEnd returns a context that ends with ctx, or when a reader has no more data. It discards the data.
func untilEnd(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r) // an error is an end too
	}()
	return ctx
}

// load reads the settings. A variable whose name is almost that of a setting is a fault. A sidecar without authentication
// ignores PAWL_TOKEN_FILE, which may be meant as PAWL_TOKENS_FILE.
func load(flags *pflag.FlagSet) (config.Config, error) {
	c, err := config.Load(flags, os.LookupEnv)
	faults, ignored := unknownVariables(flags, os.Environ())
	if os.Getenv(tokenFileVariable) != "" && !c.Secured() {
		ignored = append(ignored, tokenFileVariable)
	}
	c.Ignored = ignored
	if len(faults) == 0 {
		return c, err
	}
	if others, ok := errors.AsType[*config.Error](err); ok {
		faults = append(faults, others.Faults...)
	}
	return c, &config.Error{Faults: faults}
}

// withFiles adds the faults of the files that the settings name to the faults of the settings.
func withFiles(c config.Config, err error) error {
	settings, ok := errors.AsType[*config.Error](err)
	if err != nil && !ok {
		return err
	}
	files, ok := errors.AsType[*config.Error](server.CheckFiles(c))
	if !ok {
		return err
	}
	if settings == nil {
		return files
	}
	all := &config.Error{Faults: slices.Clone(settings.Faults)}
	for _, f := range files.Faults {
		if !slices.ContainsFunc(settings.Faults, func(of config.Fault) bool { return of.Field == f.Field }) {
			all.Faults = append(all.Faults, f)
		}
	}
	return all
}

// logged writes the error that ends a sidecar to its log if the log is JSON, so that the log has no other lines. It returns the
// error in the form of one that the command has reported.
func logged(c config.Config, p *output.Printer, err error) error {
	if err == nil || p.JSON || c.LogFormat != "json" || output.IsReported(err) {
		return err
	}
	log := slog.New(slog.NewJSONHandler(p.Err, nil))
	log.Error("the sidecar ended", "error", output.ProblemOf(err).String())
	code := output.ExitCode(err)
	if badInput(err) {
		code = output.ExitUsage
	}
	return &output.Exit{Code: code, Silent: true, Err: err}
}

// onlyData reports whether the missing data directory is the only fault in err. It also returns true if err is nil.
func onlyData(err error) bool {
	var faults *config.Error
	if !errors.As(err, &faults) {
		return err == nil
	}
	return len(faults.Faults) == 1 && faults.Faults[0].Field == "data"
}

// showConfig prints the settings in the form of a file for --config.
func showConfig(p *output.Printer, c config.Config) error {
	if p.JSON {
		return output.WriteJSON(p.Out, c)
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	_, err = p.Out.Write(text)
	return err
}
