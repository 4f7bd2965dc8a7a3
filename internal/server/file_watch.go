package server

import (
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth/oidc"
	"github.com/pawl-dev/pawl/internal/model"
)

// watchInterval is the time between two looks at the reloadable files.
const watchInterval = 2 * time.Second

// fileWatch notices changes of the reloadable files. It compares the identity, size, mode and modification time of the
// files behind the names, so it also notices that a symbolic link to their directory was replaced, as Kubernetes does
// with a Secret. A nil fileWatch notices nothing. Only one goroutine may use it.
type fileWatch struct {
	// read are the files when they were last read, and seen the files at the last look. A missing file has no info.
	read, seen map[string]os.FileInfo
}

// newFileWatch returns a fileWatch of the files that the configuration names. It returns nil if one of them can be read
// only once.
func newFileWatch(c config.Config) *fileWatch {
	if readsPipes(c) {
		return nil
	}
	w := &fileWatch{}
	w.follow(reloadedFiles(c))
	return w
}

// follow replaces the list of files. A file that is new in the list counts as read.
func (w *fileWatch) follow(paths []string) {
	if w == nil {
		return
	}
	w.seen = statFiles(slices.Values(paths))
	read := maps.Clone(w.seen)
	for path := range read {
		if before, known := w.read[path]; known {
			read[path] = before
		}
	}
	w.read = read
}

// begin records that the files are read now.
func (w *fileWatch) begin() {
	if w != nil {
		w.seen = statFiles(maps.Keys(w.seen))
		w.read = w.seen
	}
}

// changed reports whether the files have changed since they were last read, and records that they are read now. Files
// that have changed since the last look may not be complete yet, so they are reported at the next look.
func (w *fileWatch) changed() bool {
	if w == nil {
		return false
	}
	before := w.seen
	w.seen = statFiles(maps.Keys(before))
	if !sameFiles(before, w.seen) || sameFiles(w.read, w.seen) {
		return false
	}
	w.read = w.seen
	return true
}

func statFiles(paths iter.Seq[string]) map[string]os.FileInfo {
	infos := make(map[string]os.FileInfo)
	for path := range paths {
		infos[path] = nil
		if info, err := os.Stat(path); err == nil {
			infos[path] = info
		}
	}
	return infos
}

// sameFiles reports whether two looks at the same names found the same files with the same content.
func sameFiles(a, b map[string]os.FileInfo) bool {
	return maps.EqualFunc(a, b, func(x, y os.FileInfo) bool {
		if x == nil || y == nil {
			return x == nil && y == nil
		}
		return os.SameFile(x, y) && x.ModTime().Equal(y.ModTime()) && x.Size() == y.Size() && x.Mode() == y.Mode()
	})
}

// reloadedFiles returns the paths of the files that a reload reads and that the configuration names.
func reloadedFiles(c config.Config) []string {
	paths := []string{
		c.TLSCert, c.TLSKey, c.TLSClientCA, c.TokensFile, c.CertificatesFile, c.OIDCFile, c.LinkKeysFile, c.QuotasFile, c.Prices, c.CallLimits,
		c.Budgets, c.Schedules, c.ModelsFile,
	}
	for _, agent := range c.Remotes() {
		paths = append(paths, agent.TokenFile, agent.CA, agent.Cert, agent.Key)
	}
	for _, key := range c.ModelKeys {
		_, path, _ := strings.Cut(key, "=")
		paths = append(paths, path)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// nestedFiles returns the paths of the files that a reload reads and that other files name.
func nestedFiles(issuers []oidc.Issuer, models []*model.Endpoint) (paths []string) {
	for i := range issuers {
		if !strings.Contains(issuers[i].JWKS, "://") {
			paths = append(paths, issuers[i].JWKS)
		}
		paths = append(paths, issuers[i].CA)
	}
	for _, m := range models {
		paths = append(paths, m.KeyFile)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}
