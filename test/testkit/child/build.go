package child

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
)

// module is what the paths of commands begin with.
const module = "github.com/pawl-dev/pawl/"

// dir is where the programs of this process are.
var dir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "pawl-program-*") })

// Build builds a command, for example cmd/sidecar, and returns the path of the binary. [Remove] deletes the binary.
func Build(command string) (string, error) {
	into, err := dir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(into, path.Base(command))
	if out, err := exec.Command("go", "build", "-o", bin, module+command).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", command, err, out)
	}
	return bin, nil
}

// Remove takes away what was built, at the end of the process.
func Remove() {
	if into, err := dir(); err == nil {
		_ = os.RemoveAll(into)
	}
}
