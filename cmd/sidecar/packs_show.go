package main

import (
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/command"
)

func newPacksShow(p *cli.Printer, c *command.Client) *cobra.Command {
	content := false
	cmd := &cobra.Command{
		Use:   "show PACK",
		Short: "Show a registered pack (id, id@version or digest)",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pawlv1.GetPackRequest{Namespace: c.Namespace, Pack: args[0], IncludeContent: content}
			return c.Packs(func(packs pawlv1.PackServiceClient) error {
				got, err := packs.GetPack(cmd.Context(), req)
				switch {
				case err != nil:
					return err
				case p.JSON:
					return cli.WriteJSON(p.Out, cli.Message(got))
				case content:
					_, err = p.Out.Write(got.GetContent())
					return err
				}
				printPack(p, got)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&content, "content", false, "print the document as it was registered")
	c.CompleteArgs(cmd, c.PackWords)
	return cmd
}

func printPack(p *cli.Printer, got *pawlv1.GetPackResponse) {
	pk := got.GetPack()
	p.Printf("%s  %s\n%s\n", p.Bold(pk.GetId()+"@"+pk.GetVersion()), pk.GetName(), pk.GetDigest())
	if pk.GetDescription() != "" {
		p.Printf("%s\n", strings.TrimSpace(pk.GetDescription()))
	}
	if pk.GetEntry() != "" {
		p.Printf("entry %s\n", pk.GetEntry())
	}
	if len(pk.GetAgents()) > 0 {
		p.Printf("agents %s\n", strings.Join(pk.GetAgents(), ", "))
	}
	if t := got.GetTermination(); t != nil {
		p.Printf("%s\n", terminationText(p, t))
	}
	for _, d := range got.GetDiagnostics() {
		p.Printf("%d:%d: %s %s: %s\n", d.GetLine(), d.GetColumn(), p.Warn("warning"), d.GetCode(), d.GetMessage())
	}
}

// terminationText says in a line whether the loop must end.
func terminationText(p *cli.Printer, t *pawlv1.Termination) string {
	if t.GetBounded() {
		return boundedText(p, t.GetBoundedBy(), t.GetMaxVisits(), t.GetExact())
	}
	var edges []string
	for _, e := range t.GetCycle() {
		edges = append(edges, e.GetFrom()+" -"+e.GetEvent()+"→ "+e.GetTo())
	}
	return unboundedText(p, edges, t.GetAlsoLimitedBy())
}
