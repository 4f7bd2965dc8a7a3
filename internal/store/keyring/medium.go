package keyring

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// Medium is where the bytes of one file of keys lie: a file of a directory, or what an engine
// has instead. It is written by one ring, by one call at a time.
type Medium interface {
	// ReaderAt reads what was written, as a file does. Reads go on at once, but not during a
	// write.
	io.ReaderAt
	// Size returns the number of bytes; false: the medium was not created yet.
	Size() (bytes int64, there bool, err error)
	// Create makes it of its header, which is there whole, for good, or not at all.
	Create(header []byte) error
	// Write writes over what is there, or at its end, and returns when no crash takes it away
	// any more: never only a part of a slot. what names it in errors and to tests. A write that
	// failed may have happened.
	Write(what string, b []byte, at int64) error
	Close() error
}

// inFile is a file of a directory.
type inFile struct {
	dir  string
	step func(what string) error
	// file is nil until it is made.
	file *os.File
}

// InFile is the file of a directory, there or not.
func InFile(dir string) (Medium, error) { return openFile(dir, nil) }

func openFile(dir string, step func(what string) error) (*inFile, error) {
	if step == nil {
		step = func(string) error { return nil }
	}
	file, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR, 0o600)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &inFile{dir: dir, step: step, file: file}, nil
}

// ReadAt is that of the file.
func (f *inFile) ReadAt(b []byte, at int64) (int, error) { return f.file.ReadAt(b, at) }

// Size is that of the file.
func (f *inFile) Size() (bytes int64, there bool, err error) {
	if f.file == nil {
		return 0, false, nil
	}
	info, err := f.file.Stat()
	if err != nil {
		return 0, false, err
	}
	return info.Size(), true, nil
}

// Create writes the header under another name first: the file is there with a header, or
// it is not there.
func (f *inFile) Create(header []byte) error {
	path := filepath.Join(f.dir, Name)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err = f.written(file, "header", header, 0); err == nil {
		err = errors.Join(f.step("name"), os.Rename(path+".new", path), datadir.SyncDir(f.dir))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	return nil
}

// Write writes and syncs.
func (f *inFile) Write(what string, b []byte, at int64) error {
	return f.written(f.file, what, b, at)
}

func (f *inFile) written(file *os.File, what string, b []byte, at int64) error {
	if err := f.step(what); err != nil {
		return err
	}
	if _, err := file.WriteAt(b, at); err != nil {
		return err
	}
	if err := f.step(what + " sync"); err != nil {
		return err
	}
	return file.Sync()
}

// Close closes the file, if there is one.
func (f *inFile) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
