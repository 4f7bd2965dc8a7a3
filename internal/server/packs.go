package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
)

// PackError is the reason why a pack file of the configuration could not be registered.
type PackError struct {
	Path string
	// Diagnostics are the findings in the document. They are empty if the document is correct but was
	// refused for another reason.
	Diagnostics []pack.Diagnostic
	Err         error
}

// Error returns a text with one line for each diagnostic that is an error.
func (e *PackError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pack %s: %v", e.Path, e.Err)
	for _, d := range e.Diagnostics {
		if d.Severity == pack.SeverityError {
			fmt.Fprintf(&b, "\n  %s:%s", e.Path, d)
		}
	}
	return b.String()
}

// Unwrap returns Err.
func (e *PackError) Unwrap() error { return e.Err }

// registerPacks registers pack files in order and returns the names of the packs. It counts and logs
// the warnings about them.
func (t *partition) registerPacks(ctx context.Context, paths []string) ([]string, error) {
	names := make([]string, 0, len(paths))
	before, err := t.defaultVersions(ctx)
	if err != nil {
		return names, err
	}
	configured := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return names, fmt.Errorf("pack: %w", err)
		}
		got, err := t.runtime.RegisterPack(ctx, packs.RegisterRequest{
			Call:     runtime.Call{Principal: runtime.Principal{Subject: runtime.SidecarName, Scopes: runtime.ScopePacksWrite}},
			Document: content,
		})
		if err != nil {
			return names, &PackError{Path: path, Diagnostics: got.Diagnostics, Err: err}
		}
		configured[got.Row.ID] = got.Row.Version
		pack.LogWarnings(ctx, t.opts.log, path, got.Diagnostics)
		names = append(names, got.Row.ID+"@"+got.Row.Version)
		t.opts.log.Info("pack registered", "file", path, "pack", names[len(names)-1], "digest", got.Row.Digest, "warnings", len(got.Diagnostics))
	}
	warnChangedDefaults(t.opts.log, before, configured)
	return names, nil
}

// warnChangedDefaults warns about each pack whose default version the files of the configuration have changed. before are the default versions
// before that, and configured those of the files, by the pack's id.
func warnChangedDefaults(log *slog.Logger, before, configured map[string]string) {
	for id, version := range configured {
		if was := before[id]; was != "" && was != version {
			log.Warn("default version of a pack changed by its configured file", "pack", id+"@"+version, "previous", was)
		}
	}
}

// defaultVersions returns the version that an id without a version means, for each registered pack.
func (t *partition) defaultVersions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	for after := ""; ; {
		rows, next, err := t.store.ListPacks(ctx, 0, after, 0)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Default {
				versions[rows[i].ID] = rows[i].Version
			}
		}
		if after = next; next == "" {
			return versions, nil
		}
	}
}
