package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("o", "", "the test binary to write")
	work := flag.String("work", "", "directory of the exchanged files, kept for debuggers and for Go's build cache")
	mutant := flag.String("mutant", "", "build in this fault")
	list := flag.Bool("list", false, "print the names of the faults")
	flag.Parse()
	if *list {
		for _, m := range all() {
			fmt.Printf("%s\t%s\n", m.name, m.what)
		}
		return
	}
	if err := build(*out, *work, *mutant); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

// build writes the exchanged files and compiles the test binary of test/simulation.
func build(out, work, mutant string) error {
	o := overlay{dir: work, module: ".", Replace: map[string]string{}}
	if err := o.runtime(); err != nil {
		return err
	}
	if err := o.store(); err != nil {
		return err
	}
	if err := o.peers(); err != nil {
		return err
	}
	if err := o.mutate(mutant); err != nil {
		return err
	}
	index, err := o.write()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), "go", "test", "-c", "-vet=off", "-tags", "sim", "-ldflags", "-checklinkname=0", "-overlay", index, "-o", out, "./test/simulation")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Run()
}

// overlay collects the exchanged files, by the path of the original.
type overlay struct {
	dir, module string
	texts       map[string]string
	// Replace is what go's -overlay reads.
	Replace map[string]string `json:"Replace"`
}

// exchange is one text for another.
type exchange struct {
	old, new string
	// times is how often the old text stands there; 0 = once.
	times int
}

// patch applies exchanges to a file, on top of earlier ones.
func (o *overlay) patch(path string, exchanges ...exchange) error {
	text, err := o.text(path)
	if err != nil {
		return err
	}
	for _, e := range exchanges {
		want := max(e.times, 1)
		if n := strings.Count(text, e.old); n != want {
			return fmt.Errorf("%s has changed: it has %d times, not %d times, the text\n%s\nsee test/simulation/build", path, n, want, e.old)
		}
		text = strings.ReplaceAll(text, e.old, e.new)
	}
	o.add(path, text)
	return nil
}

func (o *overlay) text(path string) (string, error) {
	if text, ok := o.texts[path]; ok {
		return text, nil
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

// add sets a file, which need not exist.
func (o *overlay) add(path, text string) {
	if o.texts == nil {
		o.texts = map[string]string{}
	}
	o.texts[path] = text
}

// write stores the files, and the index of them for go's -overlay.
func (o *overlay) write() (string, error) {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	for path, text := range o.texts {
		from, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, strings.ReplaceAll(strings.Trim(from, "/"), "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		o.Replace[from] = to
	}
	data, err := json.MarshalIndent(o, "", "\t")
	if err != nil {
		return "", err
	}
	index := filepath.Join(dir, "overlay.json")
	return index, os.WriteFile(index, data, 0o600)
}
