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

// emptyBackend is a backend without agents. It records the namespaces in which a caller looked for an
// agent. It accepts every caller, with the default namespace blue.
type emptyBackend struct {
	Engine
	Host
	PushConfigs
	namespaces []string
}

var errEmpty = errors.New("there is no agent")

func (e *emptyBackend) PackNamed(_ context.Context, call runtime.Call, _ string) (*pack.Pack, error) {
	e.namespaces = append(e.namespaces, call.Namespace)
	return nil, errEmpty
}

func (e *emptyBackend) ListPacks(_ context.Context, call runtime.Call, _ string, _ int) (packs.PackPage, error) {
	e.namespaces = append(e.namespaces, call.Namespace)
	return packs.PackPage{}, errEmpty
}

func (e *emptyBackend) Principal(context.Context) runtime.Principal {
	return runtime.Principal{Namespaces: []string{"blue"}}
}

func (e *emptyBackend) Admit(r *http.Request, _ string) (context.Context, error) {
	return r.Context(), nil
}
func (e *emptyBackend) CheckNamespace(context.Context, string, any) error { return nil }
func (e *emptyBackend) Completed(context.Context, string, any, error)     {}
func (e *emptyBackend) AcquireWaitSlot(ctx context.Context, _, _ string) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// requestAll sends a request to a new server, and returns the namespaces in which the server looked for an
// agent.
func (e *emptyBackend) requestAll(t testing.TB, r *http.Request) []string {
	t.Helper()
	s, err := New(Config{Engine: e, Push: e, LenientVersion: true, MaxMessageBytes: 1 << 16}, e)
	if err != nil {
		t.Fatal(err)
	}
	e.namespaces = nil
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	return e.namespaces
}

func postRequest(verb, target, body string) *http.Request {
	r := httptest.NewRequest(verb, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", mediaJSON)
	if u, err := r.URL.Parse(target); err == nil {
		r.URL = u
	}
	return r
}

// checkSameNamespace checks that TenantOf returns the namespace in which a server looks for the agent of a
// request.
func checkSameNamespace(t testing.TB, verb, target, body string) (namespace string, served bool) {
	t.Helper()
	namespace, _ = validate.SplitTenant(TenantOf(postRequest(verb, target, body), []byte(body)))
	namespace = cmp.Or(namespace, "blue")
	namespaces := (&emptyBackend{}).requestAll(t, postRequest(verb, target, body))
	if slices.ContainsFunc(namespaces, func(in string) bool { return in != namespace }) {
		t.Errorf("%s %s %s is of %q, its house looks in %q", verb, target, body, namespace, namespaces)
	}
	return namespace, len(namespaces) > 0
}

// TestATenantIsReadAsItsHouseDoes: TenantOf and the server read the same tenant for every method of each
// binding, wherever the request has the tenant.
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
		check := func(field, verb, target, body string) {
			t.Helper()
			if got, served := checkSameNamespace(t, verb, target, body); got != want || !served {
				t.Errorf("%s, the tenant %q %s: of %q, served: %t", verb+" "+target+" "+body, tenant, field, got, served)
			}
		}
		field := `"tenant":"` + tenant + `"`
		for name := range methods {
			frame := `{"jsonrpc":"2.0","id":1,"method":"` + name + `"`
			check("in the parameters", "POST", "/", frame+`,"params":{`+field+`}}`)
			if tenant != "" {
				check("in the path", "POST", "/a2a/"+tenant, frame+`}`)
				check("in both", "POST", "/a2a/"+tenant, frame+`,"PARAMS":{`+field+`}}`)
			}
		}
		for path, verbs := range rest {
			for verb := range strings.FieldsSeq(verbs) {
				body, query := "", "?tenant="+tenant
				if verb == "POST" {
					body, query = "{"+field+"}", ""
				}
				check("in what is asked", verb, path+query, body)
				for _, agent := range paths {
					check("in the path", verb, strings.TrimSuffix(agent, "/")+path, strings.Replace(body, field, "", 1))
				}
			}
		}
		for _, agent := range paths {
			check("of a card", "GET", agent+cardPath, "")
		}
	}
}

// TestATenantOfWhatIsRefused: a request that will be refused has no tenant, and TenantOf does not fail.
func TestATenantOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "[]", `{"params":[]}`, `{"params":{"tenant":1}}`, `{"params":null}`, `{"params":{"tenant":null}}`, "\xff"} {
		r := postRequest("POST", "/", body)
		_, _ = io.Copy(io.Discard, r.Body)
		if got := TenantOf(r, []byte(body)); got != "" {
			t.Errorf("%q names %q", body, got)
		}
	}
}
