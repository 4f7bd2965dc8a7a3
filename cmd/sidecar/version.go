package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/build"
	"github.com/pawl-dev/pawl/internal/output"
)

func newVersion(p *output.Printer) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{
					{Key: "version", Value: build.Version()}, {Key: "revision", Value: build.Revision()}, {Key: "go", Value: runtime.Version()},
					{Key: "os", Value: runtime.GOOS}, {Key: "arch", Value: runtime.GOARCH},
				})
			}
			p.Printf("pawl %s\n", versions())
			return nil
		},
	}
}

// versions are those of the program and of Go, with the platform.
func versions() string {
	return fmt.Sprintf("%s %s %s/%s", build.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
