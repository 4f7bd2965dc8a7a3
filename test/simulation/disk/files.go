package disk

import (
	"bytes"
	"io/fs"
)

// Lock locks the directory for this life. It returns false if the directory is locked.
func (d *Disk) Lock(life int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked || life != d.life {
		return false
	}
	d.locked = true
	return true
}

// Unlock unlocks the directory.
func (d *Disk) Unlock(life int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if life == d.life {
		d.locked = false
	}
}

// Names are those of the directory, sorted, with their sizes.
func (d *Disk) Names() (names []string, sizes map[string]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sizes = make(map[string]int64, len(d.files))
	for name, f := range d.files {
		sizes[name] = int64(len(f.data))
	}
	return d.names(), sizes
}

// ReadFile is a file's content; fs.ErrNotExist.
func (d *Disk) ReadFile(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(f.data), nil
}

// Handle is an open file.
type Handle struct {
	disk *Disk
	life int
	file *file
}

// Create opens a new, empty file in place of one of that name.
func (d *Disk) Create(life int, name string) *Handle {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := &Handle{disk: d, life: life, file: &file{}}
	if life == d.life {
		d.unlink(name)
		d.files[name] = h.file
	}
	return h
}

func (d *Disk) unlink(name string) bool {
	f := d.files[name]
	if f == nil {
		return false
	}
	f.unlinked = true
	delete(d.files, name)
	return true
}

// Remove takes a name away; fs.ErrNotExist.
func (d *Disk) Remove(life int, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if life == d.life && !d.unlink(name) {
		return fs.ErrNotExist
	}
	return nil
}

// Rename gives a file another name.
func (d *Disk) Rename(life int, from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if life != d.life {
		return ErrCrashed
	}
	f := d.files[from]
	if f == nil {
		return fs.ErrNotExist
	}
	delete(d.files, from)
	d.unlink(to)
	d.files[to] = f
	return nil
}

// WriteAt writes into the system's memory.
func (h *Handle) WriteAt(b []byte, off int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.life != h.disk.life {
		return 0, ErrCrashed
	}
	if grown := off + int64(len(b)) - int64(len(h.file.data)); grown > 0 {
		h.file.data = append(h.file.data, make([]byte, grown)...)
	}
	return copy(h.file.data[off:], b), nil
}

// Sync writes the file to the disk.
func (h *Handle) Sync() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.life != h.disk.life {
		return ErrCrashed
	}
	h.file.synced = bytes.Clone(h.file.data)
	return nil
}

// Linked reports whether a name leads to the file.
func (h *Handle) Linked() bool {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return !h.file.unlinked
}
