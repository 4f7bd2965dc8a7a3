package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/dev"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
)

func newDev(p *output.Printer) *cobra.Command {
	o := dev.Options{Dir: ".", Config: config.Default()}
	o.Config.Data, o.Config.HTTP, o.Config.AllowTools, o.Config.LogLevel = ".pawl", "127.0.0.1:7292", []string{"*"}, "warn"
	o.Config.Listen, o.Config.HTTP = fromEnv("PAWL_LISTEN", o.Config.Listen), fromEnv("PAWL_HTTP", o.Config.HTTP)
	command, temporary, noOpen := "", false, false
	cmd := &cobra.Command{
		Use:   "dev [PACK...]",
		Short: "Run a sidecar, its web page and your app, and restart what you change",
		Long: `Serves the packs of the current directory (*.pack.yaml, *.pack.json) with a web page, for
development. At a terminal it opens the chat of the page in the browser. A pack is
registered again when you save it: the same version then means the new content. Runs that
have started keep theirs; the page forks them onto the new content. The app is started
with PAWL_ADDR set, and started again when a file of it changes: the script "app" of
package.json, or app.py with the interpreter of .venv. If its packages are missing, they
are installed first: those of requirements.txt with python3 into .venv, or those of
package.json with npm. All tools are allowed. Callers need no token, so the addresses must
be loopback.`,
		Example: `  pawl init shop && cd shop && pawl dev
  pawl dev my.pack.yaml --app "python worker.py"`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Packs, o.App = args, strings.Fields(command)
			if o.NoApp && command != "" {
				return output.Usage(errors.New("--app and --no-app exclude each other"))
			}
			if o.Packages != "" && (o.NoInstall || o.NoApp || command != "") {
				return output.Usage(errors.New("--packages excludes --no-install, --no-app and --app, with which nothing is installed"))
			}
			if temporary {
				if cmd.Flags().Changed("data") {
					return output.Usage(errors.New("--data and --temporary exclude each other"))
				}
				if o.Config.Data, err = os.MkdirTemp("", "pawl-dev-"); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, os.RemoveAll(o.Config.Data)) }()
			}
			if p.Terminal && !noOpen {
				o.Open = dev.OpenBrowser
			}
			if err := o.Config.Validate(); err != nil {
				return output.Usage(err)
			}
			return dev.Run(cmd.Context(), p, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Config.Data, "data", o.Config.Data, "directory of the runs, kept between sessions")
	fs.BoolVar(&temporary, "temporary", false, "store the runs in a temporary directory and remove it at the end")
	fs.StringVar(&o.Config.Listen, "listen", o.Config.Listen, "HOST:PORT of gRPC; port 0 selects a free port (PAWL_LISTEN)")
	fs.StringVar(&o.Config.HTTP, "http", o.Config.HTTP, "HOST:PORT of the web page; port 0 selects a free port (PAWL_HTTP)")
	fs.StringVar(&command, "app", "", "command of the app, split at spaces (default: found in the directory)")
	fs.BoolVar(&o.NoApp, "no-app", false, "do not start an app")
	fs.BoolVar(&o.NoInstall, "no-install", false, "do not install missing packages of the app")
	fs.StringVar(&o.Packages, "packages", "", "directory of built packages (make dist), to install the client from there and not from PyPI or npm")
	fs.BoolVar(&noOpen, "no-open", false, "do not open the chat in the browser")
	fs.StringVar(&o.Config.LogLevel, "log-level", o.Config.LogLevel, "lowest level of the sidecar's log: debug, info, warn, error")
	config.ModelFlags(fs, &o.Config)
	completeFrom(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}
