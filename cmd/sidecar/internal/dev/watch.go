package dev

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// interval is the time between two checks of the files.
const interval = 300 * time.Millisecond

// sources are the name endings of files that belong to an app.
var sources = []string{".py", ".ts", ".mts", ".js", ".mjs", ".cjs", ".json", ".toml", ".env"}

// skipped are the names of directories that are not watched, because a developer does not edit files in them.
var skipped = []string{"node_modules", "__pycache__", "dist", "data"}

// stamp is the size and the time of change of a file. A file whose stamp is the same counts as unchanged.
type stamp struct {
	size int64
	time time.Time
}

// isPack reports whether a path is the path of a pack file.
func isPack(path string) bool {
	return strings.HasSuffix(path, ".pack.yaml") || strings.HasSuffix(path, ".pack.yml") || strings.HasSuffix(path, ".pack.json")
}

// scan returns the stamps (size and time) of the app's files below a directory. It leaves out hidden directories and
// those in skipped, lock files of npm, and pack files, which are registered and do not restart the app.
func scan(dir string) map[string]stamp {
	out := map[string]stamp{}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // It was removed meanwhile, or cannot be read: the next scan sees what is there then.
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != dir && (strings.HasPrefix(name, ".") || slices.Contains(skipped, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if isPack(path) || strings.HasPrefix(name, "package-lock") || !slices.Contains(sources, filepath.Ext(name)) {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			out[path] = stamp{info.Size(), info.ModTime()}
		}
		return nil
	})
	return out
}

// changed returns one file that differs between two scans. It returns "" if the scans are equal.
func changed(before, after map[string]stamp) string {
	for path, s := range after {
		if before[path] != s {
			return path
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			return path
		}
	}
	return ""
}

// every calls do once in each interval until ctx ends.
func every(ctx context.Context, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}
