package powerdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// ErrNoFUSE means that this machine, or this user, cannot mount file systems by FUSE.
var ErrNoFUSE = errors.New("cannot mount by FUSE here")

// Mount shows the disk at a directory. Errors: [ErrNoFUSE].
func (d *Disk) Mount(dir string) (unmount func() error, err error) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFUSE, err)
	}
	// The tree changes only through this mount: the kernel may remember all of it.
	forever := time.Hour
	server, err := fs.Mount(dir, &entry{disk: d, node: d.root}, &fs.Options{
		MountOptions: fuse.MountOptions{
			DirectMount: true, FsName: "powerdisk", Name: "powerdisk", MaxWrite: 1 << 20, DisableXAttrs: true,
		},
		EntryTimeout: &forever, AttrTimeout: &forever,
		RootStableAttr: &fs.StableAttr{Ino: d.root.ino},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFUSE, err)
	}
	return func() error { return unmountAll(server) }, nil
}

// unmountAll waits for a process that was killed just now.
func unmountAll(server *fuse.Server) error {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if err = server.Unmount(); err == nil {
			server.Wait()
			return nil
		}
		<-time.After(2 * time.Millisecond)
	}
	return err
}

// entry is a node as the kernel knows it.
type entry struct {
	fs.Inode

	disk *Disk
	node *node
}

// handle is one opening of a file or directory.
type handle struct{ entry *entry }

// attr fills in what stat shows; the disk's mutex is held.
func (e *entry) attr(out *fuse.Attr) {
	out.Ino, out.Nlink = e.node.ino, 1
	out.Owner = fuse.Owner{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
	if e.node.dir != nil {
		out.Mode = syscall.S_IFDIR | 0o700
		return
	}
	f := e.node.file
	out.Mode, out.Size, out.Blksize = syscall.S_IFREG|f.mode, uint64(f.size), pageBytes
	out.Blocks = uint64(len(f.pages)) * pageBytes / 512
	out.SetTimes(nil, &f.mtime, &f.mtime)
}

// child makes what the kernel knows of a node; the disk's mutex is held.
func (e *entry) child(ctx context.Context, n *node, out *fuse.EntryOut) *fs.Inode {
	c := &entry{disk: e.disk, node: n}
	mode := uint32(syscall.S_IFREG)
	if n.dir != nil {
		mode = syscall.S_IFDIR
	}
	c.attr(&out.Attr)
	return e.NewInode(ctx, c, fs.StableAttr{Mode: mode, Ino: n.ino})
}

func (e *entry) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return e.disk.operate(false, func() syscall.Errno {
		e.attr(&out.Attr)
		return 0
	})
}

func (e *entry) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return e.disk.operate(true, func() syscall.Errno {
		f := e.node.file
		if size, ok := in.GetSize(); ok && f != nil {
			f.truncate(int64(size))
		}
		if mode, ok := in.GetMode(); ok && f != nil {
			f.mode = mode & 0o777
		}
		e.attr(&out.Attr)
		return 0
	})
}

func (e *entry) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	return e.disk.operate(false, func() syscall.Errno {
		free := e.disk.free() / pageBytes
		*out = fuse.StatfsOut{Blocks: max(1<<28, free), Bfree: free, Bavail: free, Files: 1 << 20, Ffree: 1 << 20, Bsize: pageBytes, Frsize: pageBytes, NameLen: 255}
		return 0
	})
}

func (e *entry) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (inode *fs.Inode, errno syscall.Errno) {
	errno = e.disk.operate(false, func() syscall.Errno {
		n := e.node.dir.names[name]
		if n == nil {
			return syscall.ENOENT
		}
		inode = e.child(ctx, n, out)
		return 0
	})
	return inode, errno
}

func (e *entry) Readdir(context.Context) (stream fs.DirStream, errno syscall.Errno) {
	errno = e.disk.operate(false, func() syscall.Errno {
		var all []fuse.DirEntry
		for name, n := range e.node.dir.names {
			mode := uint32(syscall.S_IFREG)
			if n.dir != nil {
				mode = syscall.S_IFDIR
			}
			all = append(all, fuse.DirEntry{Name: name, Ino: n.ino, Mode: mode})
		}
		stream = fs.NewListDirStream(all)
		return 0
	})
	return stream, errno
}

// add makes a node under a name.
func (e *entry) add(ctx context.Context, name string, n *node, out *fuse.EntryOut) (inode *fs.Inode, errno syscall.Errno) {
	errno = e.disk.operate(true, func() syscall.Errno {
		if e.disk.faults.Full {
			return syscall.ENOSPC
		}
		e.disk.last++
		n.ino = e.disk.last
		e.node.dir.change(map[string]*node{name: n})
		inode = e.child(ctx, n, out)
		return 0
	})
	return inode, errno
}

func (e *entry) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return e.add(ctx, name, &node{dir: newDirectory()}, out)
}

func (e *entry) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, errno := e.add(ctx, name, &node{file: newFile(mode & 0o777)}, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, &handle{inode.Operations().(*entry)}, 0, 0
}

// Link gives a file another name.
func (e *entry) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (inode *fs.Inode, errno syscall.Errno) {
	from, ok := target.(*entry)
	if !ok || from.node.file == nil {
		return nil, syscall.EPERM
	}
	errno = e.disk.operate(true, func() syscall.Errno {
		switch {
		case e.disk.faults.Full:
			return syscall.ENOSPC
		case e.node.dir.names[name] != nil:
			return syscall.EEXIST
		}
		e.node.dir.change(map[string]*node{name: from.node})
		inode = e.child(ctx, from.node, out)
		return 0
	})
	return inode, errno
}

func (e *entry) Unlink(_ context.Context, name string) syscall.Errno { return e.remove(name) }

func (e *entry) Rmdir(_ context.Context, name string) syscall.Errno { return e.remove(name) }

func (e *entry) remove(name string) syscall.Errno {
	return e.disk.operate(true, func() syscall.Errno {
		n := e.node.dir.names[name]
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.dir != nil && len(n.dir.names) > 0:
			return syscall.ENOTEMPTY
		}
		e.node.dir.change(map[string]*node{name: nil})
		return 0
	})
}

func (e *entry) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	target, ok := to.(*entry)
	exchanges := flags == unix.RENAME_EXCHANGE && ok && target.node == e.node
	if !ok || flags != 0 && !exchanges {
		return syscall.ENOTSUP
	}
	return e.disk.operate(true, func() syscall.Errno {
		n, other := e.node.dir.names[name], target.node.dir.names[newName]
		if n == nil || exchanges && other == nil {
			return syscall.ENOENT
		}
		if exchanges {
			e.node.dir.change(map[string]*node{name: other, newName: n})
			return 0
		}
		if target.node == e.node {
			e.node.dir.change(map[string]*node{name: nil, newName: n})
			return 0
		}
		target.node.dir.change(map[string]*node{newName: n})
		e.node.dir.change(map[string]*node{name: nil})
		return 0
	})
}

func (e *entry) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	errno := e.disk.operate(flags&(syscall.O_WRONLY|syscall.O_RDWR) != 0, func() syscall.Errno {
		if flags&syscall.O_TRUNC != 0 {
			e.node.file.truncate(0)
		}
		return 0
	})
	return &handle{e}, fuse.FOPEN_KEEP_CACHE, errno
}

func (h *handle) Read(_ context.Context, dest []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	var n int
	errno := h.entry.disk.operate(false, func() syscall.Errno {
		n = h.entry.node.file.read(dest, at)
		return 0
	})
	return fuse.ReadResultData(dest[:n]), errno
}

func (h *handle) Write(_ context.Context, data []byte, at int64) (uint32, syscall.Errno) {
	errno := h.entry.disk.operate(true, func() syscall.Errno {
		if h.entry.disk.faults.Full {
			return syscall.ENOSPC
		}
		h.entry.node.file.write(data, at)
		return 0
	})
	return uint32(len(data)), errno
}

func (h *handle) Lseek(_ context.Context, at uint64, whence uint32) (found uint64, errno syscall.Errno) {
	const seekData, seekHole = 3, 4
	errno = h.entry.disk.operate(false, func() syscall.Errno {
		var next int64
		f := h.entry.node.file
		switch {
		case int64(at) >= f.size:
			return syscall.ENXIO
		case whence == seekData:
			next = f.nextData(int64(at))
		case whence == seekHole:
			next = f.nextHole(int64(at))
		default:
			return syscall.EINVAL
		}
		if next < 0 {
			return syscall.ENXIO
		}
		found = uint64(next)
		return 0
	})
	return found, errno
}

// Fsync is what fsync, fdatasync and msync arrive as; the kernel has written all dirty
// pages before.
func (h *handle) Fsync(ctx context.Context, _ uint32) syscall.Errno {
	return h.entry.disk.sync(ctx, func() {
		h.entry.node.file.sync()
		h.entry.disk.root.dir.syncNames(h.entry.node)
	})
}

// Fsync of a node without a handle is a directory's.
func (e *entry) Fsync(ctx context.Context, f fs.FileHandle, _ uint32) syscall.Errno {
	if h, ok := f.(*handle); ok {
		return h.Fsync(ctx, 0)
	}
	return e.disk.sync(ctx, func() {
		if e.node.dir != nil {
			e.node.dir.sync()
		}
	})
}
