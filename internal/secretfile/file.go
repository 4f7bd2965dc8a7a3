package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxBytes bounds the size of a file.
const maxBytes = 4 << 20

// These are the file permissions with which a file is refused. The group of the file may read it, so that a service
// can read a file that it does not own.
const (
	othersWrite fs.FileMode = 0o022
	othersRead  fs.FileMode = 0o004
)

// Read reads a file whose content is secret. Only the owner may have write permission, and only the owner and the group may have read
// permission.
func Read(path string) ([]byte, error) { return read(path, othersWrite|othersRead) }

// ReadTrusted reads a file whose content is not secret. Only the owner may have write permission.
func ReadTrusted(path string) ([]byte, error) { return read(path, othersWrite) }

// read checks the permissions of the opened file, not those of the name, because the name may by then belong to another file. The check
// applies to regular files only: the permissions of a pipe mean nothing, and a pipe is private to the process that opened it.
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
	return "every user may read it"
}
