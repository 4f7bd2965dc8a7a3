package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
)

// version is the version that the linker sets (-X main.version=...). If it is "", the version that the Go tool put into the binary
// applies.
var version string

func newVersion(p *output.Printer) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v, revision := buildVersion()
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{
					{Key: "version", Value: v}, {Key: "revision", Value: revision}, {Key: "go", Value: runtime.Version()},
					{Key: "os", Value: runtime.GOOS}, {Key: "arch", Value: runtime.GOARCH},
				})
			}
			p.Printf("pawl %s %s %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// buildVersion returns the version and revision that the linker or the Go tool put into the binary.
func buildVersion() (name, revision string) {
	name = "devel"
	info, ok := debug.ReadBuildInfo()
	if ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			name = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if version != "" {
		name = version
	}
	return name, revision
}
