package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
)

func newPacksRegister(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.RegisterPackRequest{}
	keepDefault := false
	cmd := &cobra.Command{
		Use:   "register FILE",
		Short: "Check a pack and register it as id@version",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Content, err = os.ReadFile(args[0]); err != nil {
				return output.Usage(err)
			}
			makeDefault := !keepDefault
			req.Namespace, req.Filename, req.MakeDefault = c.Namespace, args[0], &makeDefault
			return c.Packs(func(packs pawlv1.PackServiceClient) error {
				got, err := packs.RegisterPack(cmd.Context(), req)
				if err != nil {
					return err
				}
				if p.JSON {
					return output.WriteJSON(p.Out, output.Message(got))
				}
				printRegistered(p, args[0], got)
				return nil
			})
		},
	}
	fs := cmd.Flags()
	bindStrict(cmd, &req.StrictSchema)
	bindBounded(cmd, &req.RequireBounded)
	fs.BoolVar(&keepDefault, "keep-default", false, "do not make this version the default of the bare id")
	fs.BoolVar(&req.MoveVersion, "move", false, "move an existing id@version to these bytes")
	return cmd
}

func printRegistered(p *output.Printer, path string, got *pawlv1.RegisterPackResponse) {
	for _, d := range got.GetDiagnostics() {
		p.Printf("%s:%d:%d: %s %s: %s\n", path, d.GetLine(), d.GetColumn(), p.Warn("warning"), d.GetCode(), d.GetMessage())
	}
	known := ""
	if got.GetDuplicate() {
		known = " (registered before)"
	}
	p.Printf("%s %s%s\n", p.Bold(got.GetPack().GetId()+"@"+got.GetPack().GetVersion()), got.GetPack().GetDigest(), known)
}

// bindStrict adds the flag --strict. Without a value the flag selects the newest published version of
// the format.
func bindStrict(cmd *cobra.Command, schema *string) {
	versions := pack.PublishedSchemas()
	cmd.Flags().StringVar(schema, "strict", "", fmt.Sprintf("check against one published version of the format: %s; without a value: %s", strings.Join(versions, ", "), pack.Newest))
	cmd.Flags().Lookup("strict").NoOptDefVal = pack.Newest
	completeFrom(cmd, "strict", versions...)
}

// bindBounded adds the flag --require-bounded.
func bindBounded(cmd *cobra.Command, bounded *bool) {
	cmd.Flags().BoolVar(bounded, "require-bounded", false, "refuse a pack with a loop that the pack does not bound")
}
