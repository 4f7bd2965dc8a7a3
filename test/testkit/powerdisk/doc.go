// Package powerdisk is a disk whose power can be cut. It is a file system in memory,
// mounted by FUSE for a real process, that knows of each page and each name whether
// it was synced: a cut takes back any of what was not.
//
// What a cut may do is what journaling file systems may do (ext4, XFS, Btrfs, F2FS): of
// pages that were written since the file's last fsync (or msync of a mapping, which arrives
// as an fsync) any subset stays, some torn in the middle; a length that was not synced is
// the old one, the new one or in between; of names that were made, renamed or removed since
// the directory's last fsync the first few stay, in their order. What was synced stays, and
// with a file the name that it has, though not those of the directories above it: POSIX
// promises less, those file systems keep it (docs/dev/adr/0039-faults.md).
//
// It can also be a bad disk: slow, read-only, full, or one that answers syncs without
// doing them. Used by tests of the whole process.
package powerdisk
