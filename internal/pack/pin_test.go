package pack

import (
	"strings"
	"testing"
)

// TestPin: digests are written into JSON and YAML of every common form, and no other text changes.
func TestPin(t *testing.T) {
	t.Parallel()
	const head = "# ours\nid: a\nname: A\nversion: 1.0.0\ntemplate_engine: {version: v1, syntax: \"{{variable}}\"}\n" +
		"prompts:\n  p: {id: p, name: Pé, version: 1.0.0, tools: [bank/charge], system_template: Charge.}\n" +
		"tools: {bank/charge: {name: bank/charge, description: Charges.}}\nworkflow:\n  version: 2\n  entry: s\n  states: {s: {prompt_task: p, terminal: true}}\n"
	digest := "sha256:" + strings.Repeat("0a", 32)
	other := "sha256:" + strings.Repeat("ff", 32)
	for name, c := range map[string]struct{ src, want string }{
		"no engine":     {head, strings.Replace(head, "  version: 2\n", "  engine: {x_pawl: {tools: {bank/charge: {mcp_digest: \"D\"}}}}\n  version: 2\n", 1)},
		"block":         {head + "  engine:\n    x_pawl:\n      tools:\n        bank/charge: # why\n          attempts: 3\n", head + "  engine:\n    x_pawl:\n      tools:\n        bank/charge: # why\n          mcp_digest: \"D\"\n          attempts: 3\n"},
		"flow":          {head + "  engine: {x_pawl: {tools: {bank/charge: {attempts: 3}}}}\n", head + "  engine: {x_pawl: {tools: {bank/charge: {mcp_digest: \"D\", attempts: 3}}}}\n"},
		"empty":         {head + "  engine: {x_pawl: {tools: {}}}\n", head + "  engine: {x_pawl: {tools: {bank/charge: {mcp_digest: \"D\"}}}}\n"},
		"pinned":        {head + "  engine: {x_pawl: {tools: {bank/charge: {mcp_digest: \"O\"}}}}\n", head + "  engine: {x_pawl: {tools: {bank/charge: {mcp_digest: \"D\"}}}}\n"},
		"pinned, plain": {head + "  engine: {x_pawl: {tools: {bank/charge: {mcp_digest: O}}}}\n", head + "  engine: {x_pawl: {tools: {bank/charge: {mcp_digest: D}}}}\n"},
		"JSON": {
			"{\n  \"id\": \"a\", \"name\": \"A\", \"version\": \"1.0.0\", \"template_engine\": {\"version\": \"v1\", \"syntax\": \"{{variable}}\"},\n  \"prompts\": {\"p\": {\"id\": \"p\", \"name\": \"P\", \"version\": \"1.0.0\", \"tools\": [\"bank/charge\"], \"system_template\": \"x\"}}, \"tools\": {\"bank/charge\": {\"name\": \"bank/charge\", \"description\": \"C\"}},\n  \"workflow\": {\n    \"version\": 2, \"entry\": \"s\", \"states\": {\"s\": {\"prompt_task\": \"p\", \"terminal\": true}}}}",
			"{\n  \"id\": \"a\", \"name\": \"A\", \"version\": \"1.0.0\", \"template_engine\": {\"version\": \"v1\", \"syntax\": \"{{variable}}\"},\n  \"prompts\": {\"p\": {\"id\": \"p\", \"name\": \"P\", \"version\": \"1.0.0\", \"tools\": [\"bank/charge\"], \"system_template\": \"x\"}}, \"tools\": {\"bank/charge\": {\"name\": \"bank/charge\", \"description\": \"C\"}},\n  \"workflow\": {\n    \"engine\": {\"x_pawl\": {\"tools\": {\"bank/charge\": {\"mcp_digest\": \"D\"}}}},\n    \"version\": 2, \"entry\": \"s\", \"states\": {\"s\": {\"prompt_task\": \"p\", \"terminal\": true}}}}",
		},
		"alias": {strings.Replace(head, "# ours\n", "x: &e {attempts: 3}\n", 1) + "  engine: {x_pawl: {tools: {bank/charge: *e, bank/pay: *e}}}\n", ""},
	} {
		src := strings.ReplaceAll(c.src, "O", other)
		p := &Pack{Source: []byte(src), Doc: &Document{Workflow: &Workflow{}}}
		if name != "alias" { // the root has a key that no pack has
			loaded, found, err := Load([]byte(src), Options{})
			if loaded == nil {
				t.Fatalf("%s: %v, %v", name, found, err)
			}
			p = loaded
		}
		got, err := Pin(p, map[string]string{"bank/charge": digest})
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "cannot be changed in place") {
				t.Errorf("%s: %v\n%s", name, err, got)
			}
			continue
		}
		if want := strings.ReplaceAll(c.want, "D", digest); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
			continue
		}
		if again, found, _ := Load(got, Options{}); again == nil || again.XPawl().Tools["bank/charge"].MCPDigest != digest {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestDigestOfNoServer: only a tool of an MCP server can be pinned, and only by a digest.
func TestDigestOfNoServer(t *testing.T) {
	t.Parallel()
	const src = `{"id":"a","name":"A","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
"prompts":{"p":{"id":"p","name":"P","version":"1.0.0","tools":["T"],"system_template":"x"}},"tools":{"T":{"name":"T","description":"C"}},
"workflow":{"version":2,"entry":"s","states":{"s":{"prompt_task":"p","terminal":true}},"engine":{"x_pawl":{"tools":{"T":{"mcp_digest":"D"}}}}}}`
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, c := range []struct{ tool, digest, says string }{
		{"bank/charge", digest, ""}, {"bank/a/b", digest, ""},
		{"charge", digest, "is no tool of an MCP server"}, {"/charge", digest, "is no tool of an MCP server"}, {"bank/", digest, "is no tool of an MCP server"},
		{"bank/charge", digest[1:], "mcp_digest"}, {"bank/charge", strings.ToUpper(digest), "mcp_digest"},
	} {
		loaded, found, err := Load([]byte(strings.NewReplacer("T", c.tool, "D", c.digest).Replace(src)), Options{})
		said := ""
		for _, d := range found {
			if d.Severity == SeverityError {
				said += d.Pointer + " " + d.Message
			}
		}
		if err != nil || (loaded == nil) != (c.says != "") || !strings.Contains(said, c.says) {
			t.Errorf("%s, %s: %s, %v", c.tool, c.digest, said, err)
		}
	}
}
