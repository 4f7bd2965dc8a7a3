package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxBytes bounds a file.
const maxBytes = 4 << 20

// The permissions with which a file is refused. Its group may read: that is how an
// operator lets a service do so that does not own it.
const (
	othersWrite fs.FileMode = 0o022
	othersRead  fs.FileMode = 0o004
)

// Read reads a file whose content is secret: nobody but its owner may write it, and
// nobody but its owner and its group may read it.
func Read(path string) ([]byte, error) { return read(path, othersWrite|othersRead) }

// ReadTrusted reads a file that everybody may see, but nobody but its owner may
// write.
func ReadTrusted(path string) ([]byte, error) { return read(path, othersWrite) }

// read judges the file that it has opened, not the name, which may be another's by
// then. Only a regular file has permissions that mean anything: a pipe is private to
// who opened it.
func read(path string, refused fs.FileMode) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if bad := info.Mode().Perm() & refused; info.Mode().IsRegular() && bad != 0 {
		return nil, fmt.Errorf("%s has mode %04o: %s; chmod %04o it", path, info.Mode().Perm(), why(bad), info.Mode().Perm()&^refused)
	}
	content, err = io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(content) > maxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxBytes)
	}
	return content, err
}

func why(bad fs.FileMode) string {
	if bad&othersWrite != 0 {
		return "others than its owner may write it"
	}
	return "everybody may read it"
}
