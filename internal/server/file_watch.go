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
)

// watchInterval is the time between two checks whether the reloadable files have changed.
const watchInterval = 2 * time.Second

// retryLooks is the number of looks after which files that could not be applied are read again, although they have not
// changed: half a minute.
const retryLooks = 15

// fileWatch notices changes of the reloadable files. It compares the identity, size, mode and modification time of the
// files behind the names, so it also notices that a symbolic link to their directory was replaced, as Kubernetes does
// with a Secret. A nil fileWatch notices nothing. Only one goroutine may use it.
type fileWatch struct {
	config config.Config
	// read are the files when they were last read, and seen the files at the last look. A missing file has no info.
	read, seen map[string]os.FileInfo
	// retry is the number of looks after which the files are read again without a change. 0 = never.
	retry int
}

// newFileWatch returns a fileWatch of the files that the configuration names, and of those that these files name. It
// returns nil if one of them can be read only once. The files count as read, so the caller reads them afterwards.
func newFileWatch(c config.Config) *fileWatch {
	if readsPipes(c) {
		return nil
	}
	w := &fileWatch{config: c}
	w.begin()
	return w
}

// begin records that the caller reads the files next. It also finds the files that other files name now. A file that
// changes after begin is reported.
func (w *fileWatch) begin() {
	if w == nil {
		return
	}
	w.seen = statFiles(slices.Values(reloadedFiles(w.config)))
	maps.Copy(w.seen, statFiles(slices.Values(nestedFiles(w.config))))
	w.read, w.retry = w.seen, 0
}

// failed records that what was read could not be applied, so that look reports the files again after a pause. The
// reason may pass without a change of a file.
func (w *fileWatch) failed() {
	if w != nil {
		w.retry = retryLooks
	}
}

// look reports whether the files have changed since they were last read, and whether they are to be read again without a
// change, after a failure. Files that have changed since the last look may not be complete yet, so they are reported at the
// next look. The caller then calls begin.
func (w *fileWatch) look() (changed, again bool) {
	if w == nil {
		return false, false
	}
	before := w.seen
	w.seen = statFiles(maps.Keys(before))
	again = w.retry == 1
	if w.retry > 1 {
		w.retry--
	}
	if !sameFiles(before, w.seen) {
		return false, false
	}
	return !sameFiles(w.read, w.seen), again
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

// nestedFiles returns the paths of the files that a reload reads and that the files of issuers and of models name. A file
// that cannot be read names none: a reload fails until it has changed.
func nestedFiles(c config.Config) (paths []string) {
	if c.OIDCFile != "" {
		issuers, _ := oidc.Read(c.OIDCFile) // The reload reports the error.
		for i := range issuers {
			if !strings.Contains(issuers[i].JWKS, "://") {
				paths = append(paths, issuers[i].JWKS)
			}
			paths = append(paths, issuers[i].CA)
		}
	}
	if c.ModelsFile != "" {
		models, _ := config.ReadModels(c.ModelsFile) // The reload reports the error.
		for _, m := range models {
			paths = append(paths, m.KeyFile)
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}
