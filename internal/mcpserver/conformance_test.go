package mcpserver_test

import (
	"context"
	"io"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// suiteVariable names the command of the official conformance suite, for example "npx @modelcontextprotocol/conformance".
// The suite needs Node 22, so the tests of this repository do not have it.
const suiteVariable = "PAWL_MCP_CONFORMANCE"

// scenarios are the scenarios of the suite that judge what the sidecar serves. Others want a tool that asks for two answers
// at once, for a model, or for the client's files, a tool that panics, or a tool that returns media.
var scenarios = []string{
	"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection", "caching", "http-header-validation",
	"sep-2164-resource-not-found", "input-required-result-unsupported-methods", "input-required-result-validate-input",
	"tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications",
}

const suitePack = `
id: NAME
name: NAME
version: 1.0.0
template_engine: {version: v1, syntax: "{{variable}}"}
prompts:
  NAME:
    id: NAME
    name: NAME
    version: 1.0.0
    system_template: "NAME {{name}}"
    variables: [{name: name, type: string, required: false}, {name: seconds, type: number, required: false}, {name: label, type: string, required: false}, {name: filename, type: string, required: false}]
workflow:
  version: 2
  entry: work
  states:
    work: {prompt_task: NAME, terminal: true}
`

// suiteTurn executes the agents that the suite requires.
func suiteTurn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	said := func(text string) pawl.Completion {
		return pawl.Completion{Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}}}
	}
	turn := t.Assignment.GetTurn()
	agent, name, _ := strings.Cut(turn.GetSystemPrompt(), " ")
	switch agent {
	case "slow-compute", "failing-job":
		wait := time.Second
		if _, after, ok := strings.Cut(turn.GetVariablesJson(), `"seconds":`); ok {
			n, err := strconv.ParseFloat(after[:strings.IndexAny(after, ",}")], 64)
			if err != nil {
				return pawl.Completion{}, err
			}
			wait = time.Duration(n * float64(time.Second))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return pawl.Completion{}, ctx.Err()
		}
		if agent == "failing-job" {
			return pawl.Completion{}, &pawl.Failure{Code: "JOB_FAILED", Message: "the job failed"}
		}
	case "confirm-delete":
		if len(turn.GetMessages()) == 0 {
			done := said("Delete it?")
			done.Await = pawlv1.Awaiting_AWAITING_INPUT
			return done, nil
		}
	}
	return said("Hello, " + name + "!"), nil
}

// TestConformance runs the scenarios of the official suite, if there is one.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := strings.Fields(os.Getenv(suiteVariable))
	if len(suite) == 0 {
		t.Skipf("%s is not set", suiteVariable)
	}
	d := &desk{t: t, data: t.TempDir() + "/data", gate: make(chan struct{})}
	d.begin()
	d.workBy(d.ready.GRPC, suiteTurn)
	packs := pawlv1.NewPackServiceClient(d.dial("boss"))
	for _, name := range []string{"greet", "slow-compute", "failing-job", "confirm-delete"} {
		if _, err := packs.RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(strings.ReplaceAll(suitePack, "NAME", name))}); err != nil {
			t.Fatal(err)
		}
	}
	// The suite sends no token, and its names of tools are no ids of packs. The proxy adds a token and changes the names. It
	// keeps the Host header, which the suite tests.
	names := strings.NewReplacer("slow_compute", "slow-compute", "failing_job", "failing-job", "confirm_delete", "confirm-delete")
	target, err := url.Parse("http://" + d.ready.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Mcp-Name", names.Replace(r.In.Header.Get("Mcp-Name")))
		if r.In.Header.Get("Mcp-Name") == "" {
			r.Out.Header.Del("Mcp-Name")
		}
		if body, err := io.ReadAll(r.In.Body); err == nil { // the names have the same length, so the body has too
			r.Out.Body = io.NopCloser(strings.NewReader(names.Replace(string(body))))
		}
		r.Out.Header.Set("Authorization", "Bearer "+secret("boss"))
	}})
	t.Cleanup(proxy.Close)
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), suite[0], append(suite[1:], "server", "--url", proxy.URL+"/mcp", "--scenario", scenario, "--timeout", "20000")...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
