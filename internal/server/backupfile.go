package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"filippo.io/age"

	"github.com/pawl-dev/pawl/internal/secretfile"
	"github.com/pawl-dev/pawl/internal/store/backup"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
)

// These are the suffixes of the names of backup files. The name begins with the number of the backup.
// The name of an encrypted backup also contains the id of the backup, because the id in the file cannot
// be read without the key.
const (
	backupSuffix = ".pawlbackup"
	sealedSuffix = backupSuffix + ".age"
)

var backupName = regexp.MustCompile(`^([0-9]{1,9})(?:\.pawlbackup|-([0-9a-f]{32})\.pawlbackup\.age)$`)

// nameOf returns the file name of a backup. sealed reports whether the file is encrypted.
func nameOf(number int, id string, sealed bool) string {
	if sealed {
		return fmt.Sprintf("%06d-%s%s", number, id, sealedSuffix)
	}
	return fmt.Sprintf("%06d%s", number, backupSuffix)
}

// numberOf returns the number in the name of a backup file. If the name contains an id, it also returns
// the id.
func numberOf(path string) (number int, id string, err error) {
	parts := backupName.FindStringSubmatch(filepath.Base(path))
	if parts == nil {
		return 0, "", fmt.Errorf("%w: %s has no number for a name", ErrUnusable, path)
	}
	number, err = strconv.Atoi(parts[1])
	return number, parts[2], err
}

var partName = regexp.MustCompile(`^partition-([0-9]{2})$`)

// partDir returns the directory for the backups of a partition. For partition 0 this is dir itself.
func partDir(dir string, part int32) string {
	if part == 0 {
		return dir
	}
	return filepath.Join(dir, fmt.Sprintf("partition-%02d", part))
}

// partsIn returns the partitions other than 0 that have backups in a directory, sorted by number. A
// partition whose first backup was interrupted is not included.
func partsIn(dir string) (parts []int32, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name := partName.FindStringSubmatch(e.Name())
		if name == nil || err != nil {
			continue
		}
		var part int64
		if part, err = strconv.ParseInt(name[1], 10, 32); err == nil && (part < 1 || part >= pg.Partitions) {
			err = fmt.Errorf("%w: %s is no partition's: there are 1 to %d", ErrUnusable, filepath.Join(dir, e.Name()), pg.Partitions-1)
		}
		files, filesErr := backupsIn(filepath.Join(dir, e.Name()))
		if err = errors.Join(err, filesErr); len(files) > 0 {
			parts = append(parts, int32(part))
		}
	}
	return parts, err
}

// recipientsOf parses the public keys for which a backup is encrypted. Without keys it returns nil, and
// the backup is not encrypted.
func recipientsOf(keys []string) (out []age.Recipient, err error) {
	for _, key := range keys {
		r, err := age.ParseX25519Recipient(key)
		if err != nil {
			return nil, fmt.Errorf("%w: the recipient %q: %w", ErrUnusable, key, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// identitiesOf reads a file of private keys that can decrypt backups. It returns nil for an empty path.
func identitiesOf(path string) ([]age.Identity, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := secretfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnusable, path, err)
	}
	return ids, nil
}

// sealed calls write with a writer that encrypts for the recipients and writes to out. Without
// recipients, it calls write with out.
func sealed(out io.Writer, to []age.Recipient, write func(out io.Writer) error) error {
	if len(to) == 0 {
		return write(out)
	}
	w, err := age.Encrypt(out, to...)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		return err
	}
	return w.Close()
}

// backupFile reads a backup file and decrypts it if it is encrypted.
type backupFile struct {
	io.Reader
	file *os.File
}

// Close implements io.Closer.
func (f *backupFile) Close() error { return f.file.Close() }

// openBackup opens a backup file for reading. If the file is encrypted, it is decrypted with one of the
// identities.
func openBackup(path string, ids []age.Identity) (*backupFile, error) {
	file, err := os.Open(path) //nolint:gosec,nolintlint // a file of the directory that its caller names
	if err != nil {
		return nil, err
	}
	out := &backupFile{Reader: file, file: file}
	if _, id, err := numberOf(path); err != nil || id == "" {
		return out, nil //nolint:nilerr // A backup that is not encrypted may have any name.
	}
	if len(ids) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: %s is encrypted: --identity names the file of the key", ErrUnusable, path), file.Close())
	}
	if out.Reader, err = age.Decrypt(file, ids...); err != nil {
		if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
			err = fmt.Errorf("%w: %s is encrypted for another recipient: %w", ErrUnusable, path, err)
		} else {
			err = fmt.Errorf("%s: %w: %w", path, backup.ErrInvalid, err)
		}
		return nil, errors.Join(err, file.Close())
	}
	return out, nil
}

// readBackup verifies a backup file and returns its header.
func readBackup(ctx context.Context, path string, ids []age.Identity) (h backup.Header, err error) {
	f, err := openBackup(path, ids)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h, err = backup.Read(f, func([]layout.Op) error { return ctx.Err() })
	if err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// idOf returns the id of the backup in a file. For an encrypted backup, idOf takes the id from the file
// name and does not verify the contents. A restore verifies them.
func idOf(ctx context.Context, path string) (string, error) {
	if _, id, err := numberOf(path); err != nil || id != "" {
		return id, err
	}
	h, err := readBackup(ctx, path, nil)
	return h.ID, err
}
