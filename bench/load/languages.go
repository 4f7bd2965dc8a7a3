package load

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// language is one whose worker, and perhaps whose driver, can be measured.
type language struct {
	Name string
	// Command starts its program; none: the reference worker, a child of the bench's binary.
	Command []string
	// Driver starts the program that drives runs; none: there is none.
	Driver []string
}

// The places of the programs and of the clients, from the root of the
// source tree.
const (
	pythonProgram = "bench/worker.py"
	pythonDriver  = "bench/driver.py"
	pythonEnv     = "clients/python/.venv/bin/python"
	nodeProgram   = "bench/worker.mjs"
	nodeDriver    = "bench/driver.mjs"
	nodeClient    = "clients/typescript/dist/esm/index.js"
)

// installed finds the workers that can be measured here besides the one in Go, and
// says why others cannot.
func installed(ctx context.Context, python, node string) (found []language, missing []string) {
	for _, look := range []func() (language, error){
		func() (language, error) { return pythonWorker(ctx, python) },
		func() (language, error) { return nodeWorker(ctx, node) },
	} {
		lang, err := look()
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s worker: %v", lang.Name, err))
			continue
		}
		if lang.Driver == nil {
			missing = append(missing, lang.Name+" driver: no program")
		}
		found = append(found, lang)
	}
	return found, missing
}

func pythonWorker(ctx context.Context, python string) (language, error) {
	lang := language{Name: "python"}
	if python == "" {
		python = pythonEnv
	}
	if err := present(pythonProgram, python); err != nil {
		return lang, err
	}
	if out, err := exec.CommandContext(ctx, python, "-c", "import pawl_client").CombinedOutput(); err != nil {
		return lang, fmt.Errorf("%s cannot import pawl_client: %w: %.200s", python, err, out)
	}
	lang.Command = []string{python, pythonProgram}
	if present(pythonDriver) == nil {
		lang.Driver = []string{python, pythonDriver}
	}
	return lang, nil
}

func nodeWorker(ctx context.Context, node string) (language, error) {
	lang := language{Name: "typescript"}
	if node == "" {
		node = "node"
	}
	path, err := exec.LookPath(node)
	if err == nil {
		err = present(nodeProgram, nodeDriver, nodeClient)
	}
	if err != nil {
		return lang, err
	}
	client, err := filepath.Abs(nodeClient)
	lang.Command, lang.Driver = []string{path, nodeProgram, client}, []string{path, nodeDriver, client}
	if err == nil {
		err = exec.CommandContext(ctx, path, "--input-type=module", "-e", "await import(process.argv[1])", client).Run()
	}
	return lang, err
}

// present says which of the files is missing.
func present(files ...string) error {
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("no %s here", file)
		}
	}
	return nil
}

var goWorker = language{Name: "go"}

// startWorker runs a language's worker program.
func (s *suite) startWorker(ctx context.Context, l language) (*child, error) {
	if l.Command == nil {
		return s.start(ctx, "worker")
	}
	return s.spawn(l.Name+" worker", commandOf(ctx, l.Command))
}

func commandOf(ctx context.Context, argv []string) *exec.Cmd {
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}
