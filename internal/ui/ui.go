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

// Path is the path at which the page is served. All paths below it belong to the page.
const Path = "/ui"

// policy is the content security policy of the page. It lets the page run only its own files and connect only to the sidecar that served
// it. So the text of an artifact, a prompt or a name is never executed. Trusted types also prevent that a string becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page: its files below assets by their names, and the document for every other path, which
// the page itself interprets. It needs no token, because the files are the same for every caller. The page
// reads all data from the API.
func Handler() http.Handler {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the directory is part of the binary, so this cannot fail
	}
	page := &page{files: files}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, page.document)
	mux.HandleFunc("GET "+Path+"/", page.document)
	mux.HandleFunc("GET "+Path+"/assets/{name}", page.asset)
	return mux
}

type page struct{ files fs.FS }

// document serves the document of the page. A browser must ask the server before it uses a cached copy, because the
// document names the files of one build.
func (p *page) document(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	p.serve(w, r, "index.html")
}

// asset serves a file with the hash of its content in its name. Caches may store it for ever.
func (p *page) asset(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	p.serve(w, r, "assets/"+r.PathValue("name"))
}

// kinds are the media types of the files of a build. The tables of the machine are not used.
var kinds = map[string]string{
	"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
	"css": "text/css; charset=utf-8", "svg": "image/svg+xml",
}

// serve sends a file of the page, with the headers that limit what the page may load.
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
