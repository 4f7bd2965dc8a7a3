package a2a

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// empties is the house of agents that there are none of: it remembers of which namespaces somebody
// wanted one. It lets in everybody, who is at home in blue.
type empties struct {
	Engine
	Host
	PushConfigs
	asked []string
}

var errEmpty = errors.New("there is no agent")

func (e *empties) PackNamed(_ context.Context, call runtime.Call, _ string) (*pack.Pack, error) {
	e.asked = append(e.asked, call.Namespace)
	return nil, errEmpty
}

func (e *empties) ListPacks(_ context.Context, call runtime.Call, _ string, _ int) (packs.PackPage, error) {
	e.asked = append(e.asked, call.Namespace)
	return packs.PackPage{}, errEmpty
}

func (e *empties) Principal(context.Context) runtime.Principal {
	return runtime.Principal{Namespaces: []string{"blue"}}
}

func (e *empties) Admit(r *http.Request, _ string) (context.Context, error) { return r.Context(), nil }
func (e *empties) CheckNamespace(context.Context, string, any) error        { return nil }
func (e *empties) Completed(context.Context, string, any, error)            {}
func (e *empties) AcquireWaitSlot(ctx context.Context, _, _ string) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// asks makes a request of every house, and returns the namespaces in which that one looked for an agent.
func (e *empties) asks(t testing.TB, r *http.Request) []string {
	t.Helper()
	s, err := New(Config{Engine: e, Push: e, LenientVersion: true, MaxMessageBytes: 1 << 16}, e)
	if err != nil {
		t.Fatal(err)
	}
	e.asked = nil
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	return e.asked
}

func asking(verb, target, body string) *http.Request {
	r := httptest.NewRequest(verb, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", mediaJSON)
	if u, err := r.URL.Parse(target); err == nil {
		r.URL = u
	}
	return r
}

// agrees: who sends a request to its house means the namespace in which that looks for the agent.
func agrees(t testing.TB, verb, target, body string) (namespace string, served bool) {
	t.Helper()
	namespace, _ = validate.SplitTenant(TenantOf(asking(verb, target, body), []byte(body)))
	namespace = cmp.Or(namespace, "blue")
	asked := (&empties{}).asks(t, asking(verb, target, body))
	if slices.ContainsFunc(asked, func(in string) bool { return in != namespace }) {
		t.Errorf("%s %s %s is of %q, its house looks in %q", verb, target, body, namespace, asked)
	}
	return namespace, len(asked) > 0
}

// TestATenantIsReadAsItsHouseDoes, for every method of each binding, wherever the tenant is.
func TestATenantIsReadAsItsHouseDoes(t *testing.T) {
	t.Parallel()
	rest := map[string]string{
		"/message:send": "POST", "/message:stream": "POST", "/tasks": "GET", "/tasks/x": "GET", "/tasks/x:cancel": "POST", "/tasks/x:subscribe": "POST GET",
		"/tasks/x/pushNotificationConfigs": "GET POST", "/tasks/x/pushNotificationConfigs/y": "GET DELETE", "/extendedAgentCard": "GET",
	}
	for tenant, want := range map[string]string{"red:crew/writer": "red", "crew/writer": "blue", "sha256:00/writer": "blue", "red:": "red", "": "blue"} {
		var paths []string
		if tenant != "" {
			paths = []string{"/a2a/" + tenant, "/" + tenant, "/" + strings.ReplaceAll(tenant, "/", "%2F")}
		}
		says := func(field, verb, target, body string) {
			t.Helper()
			if got, served := agrees(t, verb, target, body); got != want || !served {
				t.Errorf("%s, the tenant %q %s: of %q, served: %t", verb+" "+target+" "+body, tenant, field, got, served)
			}
		}
		field := `"tenant":"` + tenant + `"`
		for name := range methods {
			frame := `{"jsonrpc":"2.0","id":1,"method":"` + name + `"`
			says("in the parameters", "POST", "/", frame+`,"params":{`+field+`}}`)
			if tenant != "" {
				says("in the path", "POST", "/a2a/"+tenant, frame+`}`)
				says("in both", "POST", "/a2a/"+tenant, frame+`,"PARAMS":{`+field+`}}`)
			}
		}
		for path, verbs := range rest {
			for verb := range strings.FieldsSeq(verbs) {
				body, query := "", "?tenant="+tenant
				if verb == "POST" {
					body, query = "{"+field+"}", ""
				}
				says("in what is asked", verb, path+query, body)
				for _, agent := range paths {
					says("in the path", verb, strings.TrimSuffix(agent, "/")+path, strings.Replace(body, field, "", 1))
				}
			}
		}
		for _, agent := range paths {
			says("of a card", "GET", agent+cardPath, "")
		}
	}
}

// TestATenantOfWhatIsRefused is told without a fault.
func TestATenantOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "[]", `{"params":[]}`, `{"params":{"tenant":1}}`, `{"params":null}`, `{"params":{"tenant":null}}`, "\xff"} {
		r := asking("POST", "/", body)
		_, _ = io.Copy(io.Discard, r.Body)
		if got := TenantOf(r, []byte(body)); got != "" {
			t.Errorf("%q names %q", body, got)
		}
	}
}
