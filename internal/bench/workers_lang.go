package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// language is one whose worker, and perhaps whose driver, can be measured.
type language struct {
	name string
	// command starts its program; none: the reference worker, a child of this binary.
	command []string
	// driver starts the program that drives runs; none: there is none.
	driver []string
}

var goWorker = language{name: "go"}

// start runs the language's worker program.
func (l language) start(ctx context.Context, s *suite) (*child, error) {
	if l.command == nil {
		return s.start(ctx, "worker")
	}
	return s.spawn(l.name+" worker", commandOf(ctx, l.command))
}

func commandOf(ctx context.Context, argv []string) *exec.Cmd {
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
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

// languages finds the workers that can be measured here besides the one in Go, and
// says why others cannot.
func languages(ctx context.Context, python, node string) (found []language, missing []string) {
	for _, look := range []func() (language, error){
		func() (language, error) { return pythonWorker(ctx, python) },
		func() (language, error) { return nodeWorker(ctx, node) },
	} {
		lang, err := look()
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s worker: %v", lang.name, err))
			continue
		}
		if lang.driver == nil {
			missing = append(missing, lang.name+" driver: no program")
		}
		found = append(found, lang)
	}
	return found, missing
}

func pythonWorker(ctx context.Context, python string) (language, error) {
	lang := language{name: "python"}
	if python == "" {
		python = pythonEnv
	}
	if err := present(pythonProgram, python); err != nil {
		return lang, err
	}
	if out, err := exec.CommandContext(ctx, python, "-c", "import pawl").CombinedOutput(); err != nil {
		return lang, fmt.Errorf("%s cannot import pawl: %w: %.200s", python, err, out)
	}
	lang.command = []string{python, pythonProgram}
	if present(pythonDriver) == nil {
		lang.driver = []string{python, pythonDriver}
	}
	return lang, nil
}

func nodeWorker(ctx context.Context, node string) (language, error) {
	lang := language{name: "typescript"}
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
	lang.command, lang.driver = []string{path, nodeProgram, client}, []string{path, nodeDriver, client}
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
