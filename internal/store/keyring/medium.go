package keyring

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// Medium stores the bytes of one file of run keys, in a file of a directory or in another place of the
// storage engine. Only one ring writes to it, one write at a time.
type Medium interface {
	// ReaderAt reads the stored bytes in the same way as a file. Several reads may run at the same
	// time, but not during a write.
	io.ReaderAt
	// Size returns the number of stored bytes. It returns false if the medium was not created yet.
	Size() (bytes int64, there bool, err error)
	// Create creates the medium with the header of the key file. After a crash, either the complete
	// header is durably stored or the medium does not exist.
	Create(header []byte) error
	// Write writes b at the offset at. It overwrites existing bytes or appends at the end. It returns
	// when the bytes are durable. A crash never leaves a partly written slot. A write that failed may
	// have taken effect. Errors and tests name the write by the argument what.
	Write(what string, b []byte, at int64) error
	Close() error
}

// inFile is a Medium in a file of a directory.
type inFile struct {
	dir  string
	step func(what string) error
	// file is nil until the file is created.
	file *os.File
}

// InFile returns the Medium of a directory's file. The file may or may not exist.
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

// ReadAt reads from the file.
func (f *inFile) ReadAt(b []byte, at int64) (int, error) { return f.file.ReadAt(b, at) }

// Size returns the size of the file.
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

// Create writes the header into a file with another name and then renames it, so that the file with the
// final name always has a complete header.
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

// Write writes to the file and syncs it.
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

// Close closes the file if it exists.
func (f *inFile) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
