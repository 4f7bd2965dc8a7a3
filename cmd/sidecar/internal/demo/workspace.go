package demo

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// maxFileBytes bounds a file that write_file writes, in bytes.
const maxFileBytes = 256 << 10

// Workspace is the directory in which the tools of the demo work. Paths cannot leave it. It contains a small Go module, whose tests are
// the specification for the model.
type Workspace struct {
	// Dir is the directory's path.
	Dir  string
	root *os.Root
}

// NewWorkspace writes the module into dir, which must exist.
func NewWorkspace(dir string) (*Workspace, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	w := &Workspace{Dir: dir, root: root}
	for _, name := range []string{"go.mod", "roman_test.go"} {
		content, err := assets.ReadFile("assets/module/" + name + ".txt")
		if err == nil {
			err = w.WriteFile(name, string(content))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("workspace: %w", err), root.Close())
		}
	}
	return w, nil
}

// Close closes the directory handle. It deletes no file.
func (w *Workspace) Close() error { return w.root.Close() }

// WriteFile writes a file. It creates missing directories.
func (w *Workspace) WriteFile(name, content string) error {
	if len(content) > maxFileBytes {
		return fmt.Errorf("write_file %s: %d bytes, at most %d", name, len(content), maxFileBytes)
	}
	if dir := path.Dir(name); dir != "." {
		if err := w.root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("write_file: %w", err)
		}
	}
	if err := w.root.WriteFile(name, []byte(content), 0o644); err != nil {
		return fmt.Errorf("write_file: %w", err)
	}
	return nil
}

// ReadFile reads a file.
func (w *Workspace) ReadFile(name string) (string, error) {
	content, err := w.root.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read_file: %w", err)
	}
	return string(content), nil
}

// TreeHash returns the id of the git tree object of the workspace. It is the output of `git write-tree` after all files were added.
func (w *Workspace) TreeHash() (string, error) {
	sum, err := treeHash(w.root.FS(), ".")
	if err != nil {
		return "", fmt.Errorf("tree hash: %w", err)
	}
	return hex.EncodeToString(sum), nil
}

// treeHash returns the hash of one directory. It leaves out empty directories and .git, as git does.
func treeHash(fsys fs.FS, dir string) ([]byte, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	var body []byte
	for _, e := range entries {
		if e.Name() == ".git" {
			continue
		}
		mode, sum, err := hashEntry(fsys, path.Join(dir, e.Name()), e)
		if err != nil {
			return nil, err
		}
		if sum != nil {
			body = append(body, mode+" "+e.Name()+"\x00"...)
			body = append(body, sum...)
		}
	}
	if len(body) == 0 && dir != "." {
		return nil, nil
	}
	return object("tree", body), nil
}

// sortName returns the name by which git orders an entry. A directory is ordered as if its name ended in a slash.
func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

func hashEntry(fsys fs.FS, name string, e fs.DirEntry) (mode string, sum []byte, err error) {
	if e.IsDir() {
		sum, err = treeHash(fsys, name)
		return "40000", sum, err
	}
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return "", nil, err
	}
	return "100644", object("blob", content), nil
}

func object(kind string, body []byte) []byte {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kind, len(body))
	h.Write(body)
	return h.Sum(nil)
}
