package ui

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

//go:embed all:dist
var built embed.FS

// Path is where the page is served; everything below it is the page's.
const Path = "/ui"

// policy lets the page run nothing but its own files and talk to nobody but the
// sidecar that served it: whatever stands in an artifact, a prompt or a name is
// text. Trusted types refuse to make markup of a string at all.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page: its files by their names, and the document for every
// other path, which the page reads itself. It takes no token: the files are the
// same for everybody, and what they show they ask of the API.
func Handler() http.Handler {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the directory is part of the binary
	}
	page := &page{files: files}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, page.document)
	mux.HandleFunc("GET "+Path+"/", page.document)
	mux.HandleFunc("GET "+Path+"/assets/{name}", page.asset)
	return mux
}

type page struct{ files fs.FS }

// document is never kept by a cache: it names the files of this build.
func (p *page) document(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	p.serve(w, r, "index.html")
}

// asset has the hash of its content in its name and may be kept for ever.
func (p *page) asset(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	p.serve(w, r, "assets/"+r.PathValue("name"))
}

// kinds of the files of a build; the machine's own tables are not asked.
var kinds = map[string]string{
	"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
	"css": "text/css; charset=utf-8", "svg": "image/svg+xml",
}

func (p *page) serve(w http.ResponseWriter, r *http.Request, name string) {
	body, err := fs.ReadFile(p.files, name)
	if err != nil {
		w.Header().Set("Cache-Control", "no-store")
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kinds[name[strings.LastIndexByte(name, '.')+1:]])
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(body)))
}
