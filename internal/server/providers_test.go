package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// providerPack is a pack of two states. requires are its requirements; first and second are further
// fields of the two prompts, and engine those of x_pawl.
func providerPack(requires, first, second, engine string) string {
	return fmt.Sprintf(`{
  "id": "letters", "name": "Letters", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "requires": {"providers": [%s]},
  "prompts": {
    "sort": {"id": "sort", "name": "S", "version": "1.0.0"%s, "system_template": "Sort."},
    "draft": {"id": "draft", "name": "D", "version": "1.0.0"%s, "system_template": "Draft."}
  },
  "workflow": {"version": 2, "entry": "sort", "engine": {"x_pawl": {%s}}, "states": {
    "sort": {"prompt_task": "sort", "on_event": {"Sorted": "draft"}},
    "draft": {"prompt_task": "draft", "terminal": true}
  }}
}`, requires, first, second, engine)
}

// twoModels is a sidecar with the models small and large at one endpoint, which leaves the first state.
func twoModels(t *testing.T, providers ...string) (*endpoint.Server, config.Config) {
	t.Helper()
	models := endpoint.New(t, func(_ int, asked endpoint.Request) endpoint.Answer {
		if strings.Contains(fmt.Sprint(asked.Body["tools"]), "leave_state") {
			return endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "leave_state", Arguments: `{"event":"Sorted"}`}}}
		}
		return endpoint.Answer{Text: "Done."}
	})
	c := settings(t)
	c.Models, c.Provider = []string{"small=" + models.URL + "#s", "large=" + models.URL + "#l"}, providers
	return models, c
}

// registered registers a pack and returns the codes of its warnings, sorted.
func registered(t *testing.T, conn grpc.ClientConnInterface, pack string) (codes []string) {
	t.Helper()
	got, err := pawlv1.NewPackServiceClient(conn).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(pack)})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range got.GetDiagnostics() {
		codes = append(codes, d.GetCode())
	}
	slices.Sort(codes)
	return codes
}

// TestProvidersAreBound: the provider key of a prompt decides which model its turns call, in a process with bindings
// from the file and from flags; a pack whose keys are bound is registered without a warning.
func TestProvidersAreBound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pack string
		// models are the models that the two turns call; warnings the codes of the registration.
		models, warnings []string
	}{
		"keys": {
			pack:   providerPack(`"cheap", {"key": "dear", "role": "llm"}`, `, "provider": "dear"`, `, "provider": "cheap"`, ""),
			models: []string{"l", "s"},
		},
		"no key is default, which is bound": {
			pack:   providerPack(`"default", "cheap"`, `, "provider": "cheap"`, "", ""),
			models: []string{"s", "l"},
		},
		"default need not be declared": {
			pack:   providerPack(`"cheap"`, `, "provider": "default"`, `, "provider": "cheap"`, ""),
			models: []string{"l", "s"},
		},
		"x_pawl.models is for one host, and wins": {
			pack:   providerPack(`"cheap"`, `, "provider": "cheap"`, `, "provider": "cheap"`, `"models": {"sort": "large"}`),
			models: []string{"l", "s"},
		},
		"an optional requirement that is bound": {
			pack:   providerPack(`{"key": "cheap", "role": "llm", "required": false}`, "", `, "provider": "cheap"`, ""),
			models: []string{"l", "s"}, warnings: []string{"PP0017-4"},
		},
		"another role that a model can have": {
			pack:   providerPack(`{"key": "cheap", "role": "inference"}`, "", `, "provider": "cheap"`, ""),
			models: []string{"l", "s"}, warnings: []string{"PP0017-5"},
		},
		"a requirement that no prompt names": {
			pack:   providerPack(`"cheap", {"key": "vectors", "role": "embedding"}`, "", `, "provider": "cheap"`, ""),
			models: []string{"l", "s"}, warnings: []string{"PPPAWL-40"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			models, c := twoModels(t, "default=large", "dear=large")
			c.Providers = map[string]string{"cheap": "small", "dear": "small"}
			server, _ := serveLogged(t, c)
			conn := dial(t, server.ready.GRPC)
			if got := registered(t, conn, tt.pack); !slices.Equal(got, tt.warnings) {
				t.Errorf("registration finds %v, want %v", got, tt.warnings)
			}
			runs := pawlv1.NewRunServiceClient(conn)
			got, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "letters", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
			if err != nil {
				t.Fatal(err)
			}
			ended, err := runs.WaitRun(t.Context(), &pawlv1.WaitRunRequest{RunId: got.GetRun().GetRunId()})
			if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Fatalf("%v, %v", ended, err)
			}
			var requests []string
			for _, r := range models.Requests() {
				requests = append(requests, fmt.Sprint(r.Body["model"]))
			}
			if !slices.Equal(requests, tt.models) {
				t.Errorf("asked %v, want %v", requests, tt.models)
			}
		})
	}
}

// TestProviderFaults: each of the three faults of a provider key has its own reaction. A key that the pack does not declare refuses the
// registration. A key that is not bound, or that a model cannot serve, is a warning of the registration, and refuses
// the start of a run that the sidecar executes, with the place and what to do. Workers choose by the key themselves.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	_, c := twoModels(t, "cheap=small", "vectors=small")
	server, _ := serveLogged(t, c)
	conn := dial(t, server.ready.GRPC)
	runs := pawlv1.NewRunServiceClient(conn)
	_, err := pawlv1.NewPackServiceClient(conn).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{
		Content: []byte(providerPack(`"cheap"`, `, "provider": "chaep"`, "", "")),
	})
	if err == nil || !strings.Contains(err.Error(), "PP0017-1") || !strings.Contains(err.Error(), "cheap") {
		t.Errorf("a key that is not declared: %v", err)
	}
	for name, tt := range map[string]struct {
		pack, reason, field, says string
		warnings                  []string
	}{
		"not bound": {
			pack:   providerPack(`"cheap", "dear"`, `, "provider": "cheap"`, `, "provider": "dear"`, ""),
			reason: "PROVIDER_UNBOUND", field: "prompts.draft.provider", says: "--provider dear=MODEL", warnings: []string{"PPPAWL-40", "PPPAWL-41"},
		},
		"optional and not bound": {
			pack:   providerPack(`{"key": "dear", "role": "llm", "required": false}`, `, "provider": "dear"`, "", ""),
			reason: "PROVIDER_UNBOUND", field: "prompts.sort.provider", says: "--provider dear=MODEL", warnings: []string{"PP0017-4", "PPPAWL-40", "PPPAWL-41"},
		},
		"bound to what cannot serve it": {
			pack:   providerPack(`{"key": "vectors", "role": "embedding"}`, "", `, "provider": "vectors"`, ""),
			reason: "PROVIDER_UNFIT", field: "prompts.draft.provider", says: "role llm", warnings: []string{"PP0017-3", "PP0017-5"},
		},
		"default of another role": {
			pack:   providerPack(`{"key": "default", "role": "tts"}`, "", "", ""),
			reason: "PROVIDER_UNFIT", field: "prompts.draft.provider", says: "role llm", warnings: []string{"PP0017-3", "PP0017-3", "PP0017-5", "PP0017-5"},
		},
	} {
		if got := registered(t, conn, strings.Replace(tt.pack, `"version": "1.0.0"`, fmt.Sprintf(`"version": "1.0.0-%s"`, strings.ReplaceAll(name, " ", "-")), 1)); !slices.Equal(got, tt.warnings) {
			t.Errorf("%s: registration finds %v, want %v", name, got, tt.warnings)
		}
		_, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "letters", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
		info := &errdetails.ErrorInfo{}
		for _, detail := range status.Convert(err).Details() {
			if d, ok := detail.(*errdetails.ErrorInfo); ok {
				info = d
			}
		}
		if info.GetReason() != tt.reason || !strings.Contains(err.Error(), tt.says) || info.GetMetadata()["field"] != tt.field {
			t.Errorf("%s: %v, %v", name, err, info)
		}
		if _, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "letters", Execution: pawlv1.Execution_EXECUTION_WORKERS}); err != nil {
			t.Errorf("%s: workers: %v", name, err)
		}
	}
}

// TestBadProviders: the sidecar does not start with bindings to models that do not exist, and the error names each binding.
func TestBadProviders(t *testing.T) {
	t.Parallel()
	c := config.Config{Models: []string{"gpt=http://h"}, Provider: []string{"cheap=gone"}, Providers: map[string]string{"dear": "gpt", "far": "away"}}
	_, err := readModels(c, func(string) (string, bool) { return "", false })
	for _, says := range []string{`providers[cheap]: no --model has the name "gone"`, `providers[far]: no --model has the name "away"`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("no %q in %v", says, err)
		}
	}
}
