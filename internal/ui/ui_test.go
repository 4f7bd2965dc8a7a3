package ui

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// TestDocument: every path of the page is the document, under a policy that runs
// nothing but the page's own files.
func TestDocument(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ui", "/ui/", "/ui/runs/01JZZZZZZZZZZZZZZZZZZZZZZZ", "/ui/packs/a%2Fb"} {
		w := get(path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `<div id="root">`) {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: no %s in %q", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: headers %v", path, w.Header())
		}
	}
}

// TestDocumentHasNoInlineScript: the policy would refuse it, and the page be blank.
func TestDocumentHasNoInlineScript(t *testing.T) {
	t.Parallel()
	for part := range strings.SplitSeq(get("/ui/").Body.String(), "<script") {
		tag, rest, _ := strings.Cut(part, ">")
		if inline, _, found := strings.Cut(rest, "</script>"); found && inline != "" {
			t.Errorf("<script%s> holds %q", tag, inline)
		}
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(built, "dist/assets/*")
	if err != nil || len(names) < 2 {
		t.Fatalf("assets %v, %v", names, err)
	}
	for _, name := range names {
		w := get(Path + strings.TrimPrefix(name, "dist"))
		if w.Code != http.StatusOK || w.Body.Len() == 0 || w.Header().Get("Content-Type") == "" ||
			!strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	if w := get("/ui/assets/nothing.js"); w.Code != http.StatusNotFound || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("unknown asset: %d %v", w.Code, w.Header())
	}
}
