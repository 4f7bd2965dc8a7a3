package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// openAsOwner runs asOwner before a command that opens a data directory itself. It does nothing for serve and dev,
// because they are the service.
func openAsOwner(p *output.Printer, cmd *cobra.Command, args []string) error {
	dirOf := func(flag string) string {
		f := cmd.Flags().Lookup(flag)
		if f == nil || dsn.IsURL(f.Value.String()) {
			return ""
		}
		return f.Value.String()
	}
	switch name := cmd.Name(); {
	case name == "serve" || name == "dev":
		return nil
	case name == "restore" && onlyRootMayReplace(dirOf("data")):
		return nil // the command gives the new directory to the owner of the old one
	case (name == "compact" || name == "migrate" || name == "prune") && len(args) == 1:
		return asOwner(p, args[0])
	case name == "salvage" && len(args) == 1:
		return errors.Join(asOwner(p, args[0]), asOwner(p, dirOf("data")))
	case name == "migrate":
		return errors.Join(asOwner(p, dirOf("from")), asOwner(p, dirOf("to")))
	}
	return asOwner(p, dirOf("data"))
}

// onlyRootMayReplace reports whether only root can rename entries of the directory above dir. Then another user cannot
// exchange a directory that root is about to give away.
func onlyRootMayReplace(dir string) bool {
	if dir == "" {
		return false
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && info.Mode().Perm()&0o022 == 0
}

// asOwner prepares a command that opens a data directory itself. The files that the command creates must belong to
// the user of the service, because the service cannot open them otherwise. So a process of root takes the rights of
// the directory's owner until it ends, and says so on the error output. Another user who does not own the store is
// refused. For "" and for a directory that does not exist yet, asOwner does nothing.
//
// Linux and macOS; see credentials(7).
func asOwner(p *output.Printer, dir string) error {
	if dir == "" {
		return nil
	}
	uid, gid, store, err := storeOwner(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the command names a missing directory itself
	}
	if err != nil {
		return output.Usage(err)
	}
	name := nameOf(uid)
	switch {
	case uid == os.Geteuid():
		return nil
	case os.Geteuid() == 0:
		if err := become(uid, gid); err != nil {
			return fmt.Errorf("%s belongs to %s, and root cannot become this user: %w; run the command as this user", dir, name, err)
		}
		fmt.Fprintf(p.Err, "%s belongs to %s: the command goes on as this user\n", dir, name)
		return nil
	case !store:
		return nil // group or volume rights: no file of a service is there that could be locked out
	}
	return output.Usage(fmt.Errorf("the store in %s belongs to %s: the service could not open files of %s; run the command as this user, for example with sudo -u \\#%d",
		dir, name, nameOf(os.Geteuid()), uid))
}

// explainReplace adds to an error of a command that replaces a directory what its user can do, if the user may not
// write to the directory above.
func explainReplace(err error, dir string) error {
	path, abs := filepath.Abs(dir)
	if !errors.Is(err, fs.ErrPermission) || abs != nil {
		return err
	}
	return output.Usage(fmt.Errorf("%w\n%s may not replace a directory in %s: name an empty directory of this user with --to, and put it in the place of %s while the service is stopped",
		err, nameOf(os.Geteuid()), filepath.Dir(path), dir))
}

// storeOwner returns the owner of the store in a directory, or of the directory if it contains no store. Badger writes
// the file MANIFEST at the first start, so its owner is the user of the service also where the directory is a volume of
// root. A link in its place is refused, because it could name a file of another user. If this user may not look into
// the directory, it counts as a store.
func storeOwner(dir string) (uid, gid int, store bool, err error) {
	manifest := filepath.Join(dir, "MANIFEST")
	info, err := os.Lstat(manifest)
	if err == nil && !info.Mode().IsRegular() {
		return 0, 0, false, fmt.Errorf("%s is not a regular file", manifest)
	}
	store = err == nil || errors.Is(err, fs.ErrPermission)
	if err != nil {
		info, err = os.Stat(dir)
	}
	if err != nil {
		return 0, 0, false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false, fmt.Errorf("the file system has no owner for %s", dir)
	}
	return int(stat.Uid), int(stat.Gid), store, nil
}

// become changes the user and the group of the whole process from root to uid and gid. This cannot be undone.
func become(uid, gid int) error {
	return errors.Join(syscall.Setgroups([]int{gid}), syscall.Setgid(gid), syscall.Setuid(uid))
}

// nameOf returns the name of a user, or the number if the user has none.
func nameOf(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
