package load

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed packs/*.json
var packFiles embed.FS

// The packs that the bench drives.
const (
	// packLoop goes round between two states and overwrites an artifact.
	packLoop = "bench-loop"
	// packLog is the same with an artifact that is appended to.
	packLog = "bench-log"
	// packDeadline waits, with a wall time of a day.
	packDeadline = "bench-deadline"
)

var benchPacks = []string{packLoop, packLog, packDeadline, packAgent, packDelegate, packTools}

const (
	artifactName = "note"
	eventName    = "Next"
	// artifactBytes is the size of the value that a transition writes where no
	// figure says otherwise.
	artifactBytes = 256
	// runTransitions is after how many transitions a client goes on with a new
	// run, below the default limit of 10 000.
	runTransitions = 8000
)

// packDocument is the source of one of the packs above.
func packDocument(id string) ([]byte, error) {
	raw, err := packFiles.ReadFile("packs/" + id[len("bench-"):] + ".json")
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", id, err)
	}
	return raw, nil
}

// writePacks puts all packs into dir and returns their paths.
func writePacks(dir string) ([]string, error) {
	var paths []string
	for _, id := range benchPacks {
		raw, err := packDocument(id)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, id+".json")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return nil, fmt.Errorf("pack %s: %w", id, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
