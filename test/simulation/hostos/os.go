package hostos

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// What is os's own, by its names.
//
//nolint:staticcheck // os's names
const (
	O_CREATE = os.O_CREATE
	O_TRUNC  = os.O_TRUNC
	O_RDWR   = os.O_RDWR
	O_WRONLY = os.O_WRONLY
	O_EXCL   = os.O_EXCL
)

// Errors are os's.
var (
	ErrNotExist   = os.ErrNotExist
	ErrExist      = os.ErrExist
	ErrPermission = os.ErrPermission
)

// FileInfo and DirEntry are os's.
type (
	FileInfo = fs.FileInfo
	DirEntry = fs.DirEntry
	FileMode = fs.FileMode
)

// Getpid is the number of every simulated process.
func Getpid() int { return 1 }

// File is an open file or directory.
type File struct {
	disk   *disk.Disk
	life   int
	handle *disk.Handle
	path   string
	fd     uintptr
}

// files are the open ones by descriptor.
var files struct {
	sync.Mutex
	last uintptr
	open map[uintptr]*File
}

func opened(f *File) *File {
	files.Lock()
	defer files.Unlock()
	if files.open == nil {
		files.open = map[uintptr]*File{}
	}
	files.last++
	f.fd = files.last
	files.open[f.fd] = f
	return f
}

// ByFd finds an open file.
func ByFd(fd int) *File {
	files.Lock()
	defer files.Unlock()
	return files.open[uintptr(fd)]
}

// TryLock takes the file's directory; false: it is taken.
func (f *File) TryLock() bool { return f.disk.Lock(f.life) }

// Unlock gives the directory back.
func (f *File) Unlock() { f.disk.Unlock(f.life) }

// Linked reports whether the file has a name.
func (f *File) Linked() bool { return f.handle == nil || f.handle.Linked() }

// Open opens a directory, or a file to be looked at: a file is only read whole.
func Open(path string) (*File, error) {
	d, name := disk.Of(path)
	if d == nil && disk.Above(path) {
		return opened(&File{path: path}), nil
	}
	if d == nil {
		return nil, fs.ErrNotExist
	}
	if name != "" {
		if _, err := Stat(path); err != nil {
			return nil, err
		}
	}
	return opened(&File{disk: d, life: d.Life(), path: path}), nil
}

// OpenFile makes a file.
func OpenFile(path string, _ int, _ FileMode) (*File, error) {
	d, name := disk.Of(path)
	if d == nil {
		return nil, fs.ErrNotExist
	}
	life := d.Life()
	return opened(&File{disk: d, life: life, handle: d.Create(life, name)}), nil
}

// ReadFile reads a file whole.
func ReadFile(path string) ([]byte, error) {
	d, name := disk.Of(path)
	if d == nil {
		return nil, fs.ErrNotExist
	}
	return d.ReadFile(name)
}

// WriteFile writes a file whole; it is not synced.
func WriteFile(path string, data []byte, mode FileMode) error {
	f, err := OpenFile(path, 0, mode)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Close()
}

// Remove takes a name away.
func Remove(path string) error {
	d, name := disk.Of(path)
	if d == nil {
		return fs.ErrNotExist
	}
	return d.Remove(d.Life(), name)
}

// Rename gives a file another name.
func Rename(from, to string) error {
	d, name := disk.Of(from)
	_, other := disk.Of(to)
	if d == nil {
		return fs.ErrNotExist
	}
	return d.Rename(d.Life(), name, other)
}

// Mkdir finds the directory there: the simulator made it.
func Mkdir(string, FileMode) error { return fs.ErrExist }

// MkdirAll finds the directory there: the simulator made it.
func MkdirAll(string, FileMode) error { return nil }

// RemoveAll is not reached: nothing is migrated here.
func RemoveAll(string) error { return fs.ErrInvalid }

// WriteAt writes into a file.
func (f *File) WriteAt(b []byte, off int64) (int, error) { return f.handle.WriteAt(b, off) }

// Sync brings the file onto the disk.
func (f *File) Sync() error {
	if f.handle == nil {
		return nil
	}
	return f.handle.Sync()
}

// Close ends it.
func (f *File) Close() error {
	files.Lock()
	defer files.Unlock()
	delete(files.open, f.fd)
	return nil
}

// Fd names it for hostunix.
func (f *File) Fd() uintptr { return f.fd }

// What is below is not reached: tables and logs are no files here.

// Seek is not reached.
func (f *File) Seek(int64, int) (int64, error) { return 0, fs.ErrInvalid }

// Read is not reached.
func (f *File) Read([]byte) (int, error) { return 0, io.EOF }

// ReadAt is not reached.
func (f *File) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// Write is not reached.
func (f *File) Write([]byte) (int, error) { return 0, fs.ErrInvalid }

// Truncate is not reached.
func (f *File) Truncate(int64) error { return fs.ErrInvalid }

// WriteString is not reached.
func (f *File) WriteString(string) (int, error) { return 0, fs.ErrInvalid }

// Stat looks at the file.
func (f *File) Stat() (FileInfo, error) { return Stat(f.path) }

// ReadDir lists a directory.
func ReadDir(path string) ([]DirEntry, error) {
	d, name := disk.Of(path)
	if d == nil || name != "" {
		return nil, fs.ErrNotExist
	}
	names, sizes := d.Names()
	entries := make([]DirEntry, len(names))
	for i, name := range names {
		entries[i] = fs.FileInfoToDirEntry(info{name: name, size: sizes[name]})
	}
	return entries, nil
}

// Stat and Lstat look at a file, or a directory.
func Stat(path string) (FileInfo, error) {
	d, name := disk.Of(path)
	if d == nil {
		return nil, fs.ErrNotExist
	}
	_, sizes := d.Names()
	size, ok := sizes[name]
	if name != "" && !ok {
		return nil, fs.ErrNotExist
	}
	return info{name: name, size: size}, nil
}

// Lstat is Stat: there are no links.
func Lstat(path string) (FileInfo, error) { return Stat(path) }

type info struct {
	name string
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o600 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
