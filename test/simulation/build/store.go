package main

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// fakes are what is below the store, by the import that is exchanged.
var fakes = map[string]string{
	"\t\"github.com/dgraph-io/badger/v4\"\n": "\tbadger \"github.com/pawl-dev/pawl/test/simulation/badger\"\n",
}

// databaseFakes are those of the engine in a database.
var databaseFakes = map[string]string{
	"\t\"github.com/pawl-dev/pawl/internal/store/pg\"\n": "\t\"github.com/pawl-dev/pawl/test/simulation/pg\"\n",
}

// hostFakes are those of the files that keep HEAD and the lock of the directory.
var hostFakes = map[string]string{
	"\t\"os\"\n":                    "\tos \"github.com/pawl-dev/pawl/test/simulation/hostos\"\n",
	"\t\"golang.org/x/sys/unix\"\n": "\tunix \"github.com/pawl-dev/pawl/test/simulation/hostunix\"\n",
}

// store puts the crashable disk below the store.
func (o *overlay) store() error {
	root := filepath.Join(o.module, "internal/store")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		return o.reimport(path)
	})
	if err != nil {
		return err
	}
	// Tables and logs are not files there: the disk itself tells the newest group.
	return o.patch(filepath.Join(root, "datadir/inspect.go"), exchange{
		old: "flushed, err := tables.verifyAll()", new: "flushed, err := badger.Newest(dir)",
	})
}

// realHost are the files of datadir that use the real file system: a simulation has its own measure of the free
// space, and compacts nothing.
var realHost = map[string]bool{
	"disk_space.go": true, "compaction_mark.go": true, "staged_dir.go": true, "swap.go": true, "swap_linux.go": true, "swap_darwin.go": true, "swap_other.go": true,
}

// fakesOf are what is exchanged in a file.
func fakesOf(path string) []map[string]string {
	all := []map[string]string{fakes}
	switch dir := filepath.Base(filepath.Dir(path)); {
	case realHost[filepath.Base(path)]:
	case dir == "datadir" || filepath.Base(path) == "store.go" || filepath.Base(path) == "yardstick.go":
		all = append(all, hostFakes)
	case dir == "pgengine":
		all = append(all, databaseFakes)
	}
	return all
}

func (o *overlay) reimport(path string) error {
	text, err := o.text(path)
	if err != nil {
		return err
	}
	changed := text
	for _, exchanged := range fakesOf(path) {
		for from, to := range exchanged {
			changed = strings.Replace(changed, from, to, 1)
		}
	}
	if changed != text {
		o.add(path, changed)
	}
	return nil
}
