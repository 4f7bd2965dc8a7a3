package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newPacksShow(p *output.Printer, c *client) *cobra.Command {
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
					return output.WriteJSON(p.Out, output.Message(got))
				case content:
					_, err = p.Out.Write(got.GetContent())
					return err
				}
				printPack(p, got)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&content, "content", false, "print the registered document unchanged")
	c.CompleteArgs(cmd, c.PackWords)
	return cmd
}

func printPack(p *output.Printer, got *pawlv1.GetPackResponse) {
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
	printTools(p, got.GetTools())
	for _, d := range got.GetDiagnostics() {
		p.Printf("%d:%d: %s %s: %s\n", d.GetLine(), d.GetColumn(), p.Warn("warning"), d.GetCode(), d.GetMessage())
	}
}

// printTools lists the tools, with the settings that differ from the defaults.
func printTools(p *output.Printer, tools []*pawlv1.PackTool) {
	for _, t := range tools {
		kind, from := "tool", "called by no prompt"
		if t.GetAgent() {
			kind = "agent"
		}
		if len(t.GetPrompts()) > 0 {
			from = "called by " + strings.Join(t.GetPrompts(), ", ")
		}
		p.Printf("%s %s  %s\n", kind, p.Bold(t.GetName()), strings.Join(append([]string{from}, toolSettings(t)...), "; "))
	}
}

// toolSettings returns the settings of a tool that differ from the defaults.
func toolSettings(t *pawlv1.PackTool) []string {
	var out []string
	say := func(given bool, format string, args ...any) {
		if given {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(t.GetApprove() != "never", "approve: %s", t.GetApprove())
	say(t.GetNotStarter(), "not by the starter")
	say(t.GetOnTimeout() == "escalate", "on_timeout: escalate")
	say(len(t.GetDedupe()) > 0, "dedupe: %s", strings.Join(t.GetDedupe(), ", "))
	say(t.GetMaxCalls() > 0, "max_calls: %d", t.GetMaxCalls())
	say(t.GetCostMicroUsd() > 0, "cost: %s", output.Dollars(t.GetCostMicroUsd()))
	say(t.GetAttempts() > 1, "attempts: %d", t.GetAttempts())
	say(t.GetOnError() != "return", "on_error: %s", t.GetOnError())
	say(t.GetOnUnknown() != "return", "on_unknown: %s", t.GetOnUnknown())
	say(t.GetReconcile() != "", "reconcile: %s", t.GetReconcile())
	say(t.GetCompensate() != "", "compensate: %s", t.GetCompensate())
	say(t.GetResultArtifact() != "", "result: %s", t.GetResultArtifact())
	say(t.GetSensitive(), "sensitive")
	say(t.GetMcpDigest() != "", "mcp_digest: %s", t.GetMcpDigest())
	return out
}

// terminationText describes in one line whether every run of the pack ends: what bounds it, or the cycle that can
// repeat for ever.
func terminationText(p *output.Printer, t *pawlv1.Termination) string {
	if t.GetBounded() {
		return boundedText(p, t.GetBoundedBy(), t.GetMaxVisits(), t.GetExact())
	}
	var edges []string
	for _, e := range t.GetCycle() {
		edges = append(edges, e.GetFromState()+" -"+e.GetEvent()+"→ "+e.GetToState())
	}
	return unboundedText(p, edges, t.GetAlsoLimitedBy())
}
