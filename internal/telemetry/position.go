package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// readPosition reads the file with the cursor up to which spans were exported. If path is "", if there is no
// file, or if the journal is shorter than the cursor, it returns the newest cursor of the journal, so that no
// older spans are exported.
func readPosition(path string, tail uint64) (uint64, error) {
	if path == "" {
		return tail, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tail, nil
	}
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s holds no cursor: remove it to go on without the spans of the last seconds", path)
	}
	return min(at, tail), nil
}

// writePosition replaces the content of the file with the cursor. It does not sync the file: after a crash the file
// may have an older cursor, and then some spans are exported again with the same ids.
func writePosition(path string, at uint64) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path+".new", []byte(strconv.FormatUint(at, 10)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
