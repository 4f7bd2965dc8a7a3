// Package powerdisk is a disk whose power can be cut: a file system in memory, mounted by FUSE for
// a real process.
//
// It knows of each page and each name whether it was synced. A cut takes back any part of what was
// not. What a cut may do is what journaling file systems may do (ext4, XFS, Btrfs, F2FS):
//
//   - Of the pages that were written since the file's last fsync (or msync of a mapping, which
//     arrives as an fsync), any subset stays, some torn in the middle.
//   - A length that was not synced is the old one, the new one or in between.
//   - Of the names that were made, renamed or removed since the directory's last fsync, the first
//     few stay, in their order.
//   - What was synced stays, and with a file the name that it has, but not the names of the
//     directories above it. POSIX promises less; those file systems keep it
//     (docs/dev/adr/0039-faults.md).
//
// The disk can also be a bad one: slow, read-only, full, or one that answers syncs without doing
// them. Tests of the whole process use it.
package powerdisk
