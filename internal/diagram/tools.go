package diagram

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Tool is a tool of a pack, or an agent that a prompt lists, with the pack's settings for its calls. The fields have the names of
// x_pawl.tools, and defaults are filled in.
type Tool struct {
	Name string `json:"name"`
	// Kind is "tool" or [NodeAgent].
	Kind        string `json:"kind"`
	Description string `json:"description,omitempty"`
	// Prompts are the prompts whose turns may call the tool, by name: they list the tool and do not block it. If there
	// are none, no turn can call the tool, but the sidecar can, to reconcile or undo calls of another tool.
	Prompts []string `json:"prompts"`
	// Approve is "never", "always" or the condition (CEL) under which a person must decide. ApprovalTimeoutSec is how long a call waits for
	// the decision. OnTimeout is what follows if no decision is made.
	Approve            string `json:"approve"`
	ApprovalTimeoutSec int64  `json:"approval_timeout_sec,omitempty"`
	OnTimeout          string `json:"on_timeout,omitempty"`
	NotStarter         bool   `json:"not_starter,omitempty"`
	// Dedupe are the payload fields, as JSON pointers, that identify an effect of the tool. Calls with the same
	// values in these fields have only one effect.
	Dedupe []string `json:"dedupe,omitempty"`
	// MaxCalls bounds the calls of the tool in one run; 0 = no such bound.
	MaxCalls int64 `json:"max_calls,omitempty"`
	// CostMicroUSD is the maximum cost of one attempt, in millionths of a dollar; 0 = the pack gives no cost.
	CostMicroUSD int64 `json:"cost_micro_usd,omitempty"`
	TimeoutSec   int64 `json:"timeout_sec"`
	Attempts     int64 `json:"attempts"`
	// OnError is what happens to the run when a call has failed finally. OnUnknown is what happens when the outcome of a call is unknown.
	OnError    string `json:"on_error"`
	OnUnknown  string `json:"on_unknown"`
	Reconcile  string `json:"reconcile,omitempty"`
	Compensate string `json:"compensate,omitempty"`
	// MCPDigest is the digest of an MCP server's tool. The pack allows only the tool with this digest; "" = every
	// version of the tool.
	MCPDigest string `json:"mcp_digest,omitempty"`
	// ResultArtifact is the artifact into which an accepted answer is written; "" = none.
	ResultArtifact string `json:"result_artifact,omitempty"`
	// Sensitive means that payloads and results are shown only to principals with the scope values:sensitive.
	Sensitive bool `json:"sensitive,omitempty"`
}

// KindTool is the kind of a [Tool] that is not an agent.
const KindTool = "tool"

// callable returns the tools that turns of a prompt may call, sorted.
func (d sketch) callable(prompt string) []string {
	if known, ok := d.calls[prompt]; ok {
		return known
	}
	var tools []string
	if doc := d.pack.Doc.Prompts[prompt]; doc != nil {
		tools = slices.Clone(doc.Tools)
		slices.Sort(tools)
		tools = slices.Compact(tools)
		if policy := doc.ToolPolicy; policy != nil {
			blocked := map[string]bool{}
			for _, tool := range policy.Blocklist {
				blocked[tool] = true
			}
			tools = slices.DeleteFunc(tools, func(tool string) bool { return blocked[tool] })
		}
	}
	d.calls[prompt] = tools
	return tools
}

// tools returns the tools that the pack declares, and the agents that its prompts list.
func (d sketch) tools() []Tool {
	prompts := map[string][]string{}
	for name := range d.pack.Doc.Tools {
		prompts[name] = []string{}
	}
	for _, prompt := range slices.Sorted(maps.Keys(d.pack.Doc.Prompts)) {
		for _, tool := range d.callable(prompt) {
			prompts[tool] = append(prompts[tool], prompt)
		}
	}
	out := make([]Tool, 0, len(prompts))
	for _, name := range slices.Sorted(maps.Keys(prompts)) {
		_, agent := slices.BinarySearch(d.members, name)
		if d.pack.Doc.Tools[name] == nil && !agent {
			continue
		}
		out = append(out, d.tool(name, agent, prompts[name]))
	}
	return out
}

// tool returns a tool or agent with the settings that apply to its calls. prompts are the prompts that list it.
func (d sketch) tool(name string, agent bool, prompts []string) Tool {
	x, set := d.pack.XPawl(), d.pack.Tool(name, agent)
	said := x.Tools[name]
	t := Tool{
		Name: name, Kind: KindTool, Prompts: prompts, Approve: "never", Dedupe: set.Dedupe,
		MaxCalls: int64(set.MaxCalls), CostMicroUSD: set.CostMicro, TimeoutSec: int64(set.Timeout / time.Second), Attempts: int64(set.Attempts),
		OnError: cmp.Or(said.OnError, "return"), OnUnknown: cmp.Or(said.OnUnknown, "return"),
		Reconcile: set.Reconcile, Compensate: set.Compensate, ResultArtifact: set.ResultArtifact, MCPDigest: said.MCPDigest,
		Sensitive: x.Sensitive != nil && slices.Contains(x.Sensitive.Tools, name),
	}
	if agent {
		t.Kind = NodeAgent
	}
	t.Description = d.about(name, agent)
	if held := set.Approval; held != nil {
		t.approval(held)
	}
	return t
}

func (t *Tool) approval(held *machine.Approval) {
	t.Approve, t.ApprovalTimeoutSec, t.NotStarter = cmp.Or(held.If, "always"), int64(held.Timeout/time.Second), held.NotStarter
	t.OnTimeout = "deny"
	if held.Escalate {
		t.OnTimeout = "escalate"
	}
}

// about returns the description of a tool, or of an agent.
func (d sketch) about(name string, agent bool) string {
	if declared := d.pack.Doc.Tools[name]; declared != nil {
		return declared.Description
	}
	if agents := d.pack.Doc.Agents; agent && agents != nil && agents.Members[name] != nil {
		return agents.Members[name].Description
	}
	return ""
}
