package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// A graph in text, one thing a line:
//
//	entry plan
//	state plan: PlanReady->implement max=3 exit=review external user persistent terminal
//	            timeout=30s:Late iter=PlanReady:2 prompt=p (all on one line)
//	artifact notes text/plain append
//	prompt p tools=a,b block=c per_turn=2
//	tool a timeout=10s attempts=2 on_error=escalate on_unknown=retry agent bind=notes
//	       reconcile=b compensate=c (with on_unknown=reconcile)
//	       pause=1s max=10s times=1500 jitter=0 final=CODE,CODE (all on one line)
//	budget max_total_visits=5 max_tool_calls=3 wall=60s steps=2 reframes=1 tokens=9 cost=9
//	price small 150000/15000/600000/600000
//	retry attempts=3 initial=1s max=10s final=CODE
//	calls timeout=10s attempts=2 pause=1s max=10s times=1500 jitter=0 final=CODE
//	options pending=2 artifact_bytes=100 excludes_waiting agent=member no_progress=3:ac compensate_on=E
//	        (a: over artifacts, c: over calls)
//
// States use prompt "p" unless they say otherwise; prompt "p" lists the tools
// that have a tool line, unless it has a line of its own.
func parseGraph(text string) (*machine.Graph, error) {
	g := &machine.Graph{
		Digest: "sha256:feed", PackID: "pack", PackVersion: "1.0.0",
		States: map[string]*machine.Node{}, Prompts: map[string]*machine.Prompt{},
		Artifacts: map[string]machine.Artifact{}, Tools: map[string]machine.Tool{},
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if err := parseGraphLine(g, strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	if g.Prompts["p"] == nil {
		g.Prompts["p"] = &machine.Prompt{Name: "p", Tools: map[string]bool{}}
		for name := range g.Tools {
			g.Prompts["p"].Tools[name] = true
		}
	}
	return g, machine.CheckGraph(g)
}

func parseGraphLine(g *machine.Graph, words []string) error {
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "entry":
		g.Entry = words[1]
		return nil
	case "state":
		return parseState(g, strings.TrimSuffix(words[1], ":"), words[2:])
	case "artifact":
		a := machine.Artifact{Type: words[2]}
		if len(words) > 3 && words[3] == "append" {
			a.Mode = machine.Append
		}
		g.Artifacts[words[1]] = a
		return nil
	case "prompt":
		return parsePrompt(g, words[1], words[2:])
	case "tool":
		return parseTool(g, words[1], words[2:])
	case "price":
		p, err := parsePrice(words[2])
		if g.Prices == nil {
			g.Prices = map[string]machine.Price{}
		}
		g.Prices[words[1]] = p
		return err
	case "calls":
		return parseCalls(g, words[1:])
	case "budget", "retry", "options":
		return parseBounds(g, words[1:])
	}
	return fmt.Errorf("unknown line %q", words[0])
}

func parseState(g *machine.Graph, name string, words []string) error {
	n := &machine.Node{Name: name, Prompt: "p", OnEvent: map[string]string{}, MaxIterations: map[string]int{}}
	g.States[name] = n
	terminal := true
	for _, w := range words {
		if event, target, ok := strings.Cut(w, "->"); ok {
			n.OnEvent[event] = target
			terminal = n.Terminal
			continue
		}
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "max":
			n.MaxVisits, err = strconv.Atoi(value)
		case "exit":
			n.OnMaxVisits = value
		case "prompt":
			n.Prompt = value
		case "external":
			n.Orchestration = machine.External
		case "hybrid":
			n.Orchestration = machine.Hybrid
		case "user":
			n.Control = machine.ControlUser
		case "agent":
			n.Control = machine.ControlAgent
		case "persistent":
			n.Persistent = true
		case "terminal":
			n.Terminal, terminal = true, true
		case "fails":
			n.Terminal, terminal, n.Outcome = true, true, machine.Failed
		case "timeout":
			after, event, _ := strings.Cut(value, ":")
			n.Timeout = &machine.Timeout{Event: event}
			n.Timeout.After, err = time.ParseDuration(after)
		case "iter":
			event, limit, _ := strings.Cut(value, ":")
			n.MaxIterations[event], err = strconv.Atoi(limit)
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return err
		}
	}
	n.Terminal = terminal
	return nil
}

func parsePrompt(g *machine.Graph, name string, words []string) error {
	p := &machine.Prompt{Name: name, Tools: map[string]bool{}, Blocklist: map[string]bool{}}
	g.Prompts[name] = p
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "tools", "block":
			set := map[string]map[string]bool{"tools": p.Tools, "block": p.Blocklist}[key]
			for tool := range strings.SplitSeq(value, ",") {
				set[tool] = true
			}
		case "per_turn":
			var err error
			if p.MaxToolCallsPerTurn, err = strconv.Atoi(value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown word %q", w)
		}
	}
	return nil
}

func parseTool(g *machine.Graph, name string, words []string) error {
	var tool machine.Tool
	policies := map[string]machine.OnFault{"return": machine.Return, "retry": machine.Retry, "escalate": machine.Escalate, "reconcile": machine.Reconcile}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "timeout":
			tool.Timeout, err = time.ParseDuration(value)
		case "attempts":
			tool.Attempts, err = strconv.Atoi(value)
		case "calls":
			tool.MaxCalls, err = strconv.Atoi(value)
		case "on_error":
			tool.OnError = policies[value]
		case "on_unknown":
			tool.OnUnknown = policies[value]
		case "cost":
			tool.CostMicro, err = strconv.ParseInt(value, 10, 64)
			g.Ledger = true
		case "agent":
			tool.Agent = true
		case "turn":
			tool.TurnTokens, err = strconv.ParseInt(value, 10, 64)
		case "reconcile":
			tool.Reconcile = value
		case "compensate":
			tool.Compensate = value
		case "approve", "held", "approve_escalate", "not_starter":
			err = parseApproval(&tool, key, value)
		case "bind":
			tool.ResultArtifact = value
		case "pause", "max", "times", "jitter", "final":
			tool.Retry, err = parseRetry(tool.Retry, key, value)
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return err
		}
	}
	g.Tools[name] = tool
	return nil
}

// parseApproval reads how calls of a tool are approved: approve, approve=CONDITION, held=TIME.
func parseApproval(tool *machine.Tool, key, value string) (err error) {
	if tool.Approval == nil {
		tool.Approval = &machine.Approval{}
	}
	switch key {
	case "approve":
		tool.Approval.If = value
	case "held":
		tool.Approval.Timeout, err = time.ParseDuration(value)
	case "approve_escalate":
		tool.Approval.Escalate = true
	case "not_starter":
		tool.Approval.NotStarter = true
	}
	return err
}

// parseCalls reads how calls of models are made.
func parseCalls(g *machine.Graph, words []string) (err error) {
	g.ModelCalls = &machine.Calls{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		retry := &g.ModelCalls.Retry
		switch key {
		case "timeout":
			g.ModelCalls.Timeout, err = time.ParseDuration(value)
		case "attempts":
			retry.MaxAttempts, err = strconv.Atoi(value)
		case "pause", "max", "times", "jitter", "final":
			_, err = parseRetry(retry, key, value)
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseRetry adds a word to the pauses of a tool.
func parseRetry(p *machine.RetryPolicy, key, value string) (_ *machine.RetryPolicy, err error) {
	if p == nil {
		p = &machine.RetryPolicy{}
	}
	switch key {
	case "pause":
		p.Initial, err = time.ParseDuration(value)
	case "max":
		p.Max, err = time.ParseDuration(value)
	case "times":
		p.Multiplier, err = strconv.ParseInt(value, 10, 64)
	case "jitter":
		p.Jitter = new(int64)
		*p.Jitter, err = strconv.ParseInt(value, 10, 64)
	case "final":
		p.NonRetryable = strings.Split(value, ",")
	}
	return p, err
}

// parsePrice reads INPUT/CACHED/OUTPUT/REASONING.
func parsePrice(text string) (p machine.Price, err error) {
	_, err = fmt.Sscanf(text, "%d/%d/%d/%d", &p.Input, &p.Cached, &p.Output, &p.Reasoning)
	return p, err
}

func parseBounds(g *machine.Graph, words []string) error {
	b := &g.Budget
	ints := map[string]*int{
		"max_total_visits": &b.MaxTotalVisits, "max_tool_calls": &b.MaxToolCalls,
		"steps": &b.MaxSteps, "reframes": &b.MaxReframes,
		"attempts": &g.Retry.MaxAttempts, "pending": &g.MaxPendingSteps,
	}
	longs := map[string]*int64{"tokens": &b.MaxTokens, "cost": &b.MaxCostMicroUSD, "artifact_bytes": &g.MaxArtifactBytes, "run_artifact_bytes": &g.MaxRunArtifactBytes}
	times := map[string]*time.Duration{"wall": &b.MaxWallTime, "initial": &g.Retry.Initial, "max": &g.Retry.Max}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch {
		case ints[key] != nil:
			*ints[key], err = strconv.Atoi(value)
		case longs[key] != nil:
			*longs[key], err = strconv.ParseInt(value, 10, 64)
		case times[key] != nil:
			*times[key], err = time.ParseDuration(value)
		case key == "final":
			g.Retry.NonRetryable = strings.Split(value, ",")
		case key == "excludes_waiting":
			g.WallExcludesWaiting = true
		case key == "agent":
			g.Agent = value
		case key == "on_budget":
			g.OnBudget, g.Ledger = value, true
		case key == "compensate_on":
			g.CompensateOn = map[string]bool{}
			for event := range strings.SplitSeq(value, ",") {
				g.CompensateOn[event] = true
			}
		case key == "no_progress":
			window, over, _ := strings.Cut(value, ":")
			g.NoProgress = &machine.NoProgress{Artifacts: strings.Contains(over, "a"), ToolCalls: strings.Contains(over, "c")}
			g.NoProgress.Window, err = strconv.Atoi(window)
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
