package export

import (
	"fmt"
	"mime"
	"path"
	"strings"
)

// extensions are the file endings by media type. The table is part of this program, so that a workspace has the same file names on every
// machine.
var extensions = map[string]string{
	"text/plain": "txt", "text/markdown": "md", "text/html": "html", "text/css": "css", "text/csv": "csv",
	"text/xml": "xml", "text/yaml": "yaml", "text/javascript": "js", "text/x-go": "go", "text/x-python": "py",
	"text/x-diff": "diff", "text/x-patch": "patch", "application/json": "json", "application/xml": "xml",
	"application/yaml": "yaml", "application/pdf": "pdf", "application/zip": "zip", "application/gzip": "gz",
	"application/x-ndjson": "jsonl", "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif",
	"image/svg+xml": "svg", "image/webp": "webp", "audio/mpeg": "mp3", "audio/wav": "wav", "video/mp4": "mp4",
}

// extension returns the file ending for a media type, without the dot.
func extension(mediaType string) string {
	base, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return "bin"
	}
	switch known := extensions[base]; {
	case known != "":
		return known
	case strings.HasSuffix(base, "+json"):
		return "json"
	case strings.HasSuffix(base, "+xml"):
		return "xml"
	case strings.HasPrefix(base, "text/"):
		return "txt"
	}
	return "bin"
}

// maxFileName bounds a file's name without its ending, in bytes.
const maxFileName = 120

// fileNames gives each artifact a unique file name of the characters that safeName permits.
type fileNames struct{ taken map[string]bool }

func newFileNames() *fileNames { return &fileNames{taken: make(map[string]bool)} }

// fileName returns the file name of an artifact. If the artifact's name already has the ending, the ending is not added.
func (f *fileNames) fileName(name, mediaType string) string {
	ext := "." + extension(mediaType)
	stem := safeName(strings.TrimSuffix(name, ext))
	for n := 1; ; n++ {
		file := stem + ext
		if n > 1 {
			file = fmt.Sprintf("%s-%d%s", stem, n, ext)
		}
		// Some file systems do not distinguish upper and lower case.
		if key := strings.ToLower(file); !f.taken[key] {
			f.taken[key] = true
			return file
		}
	}
}

// safeName returns the name with only ASCII letters, digits and the characters "._-". Other characters become "_".
// Leading dots are removed, and a long name is cut.
func safeName(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, path.Clean(name))
	if clean = strings.TrimLeft(clean, "."); clean == "" {
		clean = "artifact"
	}
	return clean[:min(len(clean), maxFileName)]
}
