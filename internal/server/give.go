package server

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// giveTo gives dir and its files the owner and the group of the directory like. A command calls it if
// dir replaces like and root runs the command, because the service could not open files of root. It
// does nothing if like does not exist or belongs to root, or if this process does not run as root. Only root may have the
// right to rename entries of the directory above dir, because another user could put a directory of root
// in its place.
func giveTo(dir, like string) error {
	info, err := os.Stat(like)
	if errors.Is(err, fs.ErrNotExist) || err == nil && os.Geteuid() != 0 {
		return nil
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 && stat.Gid == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, int(stat.Uid), int(stat.Gid))
	})
	return errors.Join(err, root.Close())
}
