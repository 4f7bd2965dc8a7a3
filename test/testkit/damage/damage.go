package damage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// FileDamage is one piece of damage to one file.
type FileDamage struct {
	// File is its name in the directory, Kind the ending or the whole name without one.
	File, Kind, How string
	// At is where, Size what was written of the file.
	At, Size int64
}

func (h FileDamage) String() string { return fmt.Sprintf("%s %s at %d", h.How, h.File, h.At) }

// damageKinds are the kinds of damage.
var damageKinds = map[string]func(file string, at, size int64) error{
	"flip": func(file string, at, _ int64) error {
		return patch(file, at, func(b []byte) { b[0] ^= 1 << (at % 8) }, 1)
	},
	"zero": func(file string, at, size int64) error {
		return patch(file, at, func(b []byte) { clear(b) }, min(512, size-at))
	},
	"cut":    func(file string, at, _ int64) error { return os.Truncate(file, at) },
	"empty":  func(file string, _, _ int64) error { return os.Truncate(file, 0) },
	"delete": func(file string, _, _ int64) error { return os.Remove(file) },
}

func patch(file string, at int64, change func([]byte), n int64) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, n)
	_, err = f.ReadAt(b, at)
	change(b)
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	return errors.Join(err, f.Close())
}

// Flip flips a bit of a file.
func Flip(file string, at int64) error { return damageKinds["flip"](file, at, 0) }

// Choose takes a file, a way and a place; each kind of file as often as another. written
// says where the last byte of a sparse file ends that was written.
func Choose(dir string, random *rand.Rand, written func(*os.File) (int64, error)) (FileDamage, error) {
	kinds := map[string][]string{}
	files, err := os.ReadDir(dir)
	if err != nil {
		return FileDamage{}, err
	}
	for _, f := range files {
		kind := kindOf(f.Name())
		kinds[kind] = append(kinds[kind], f.Name())
	}
	names := slices.Sorted(maps.Keys(kinds))
	kind := names[random.IntN(len(names))]
	h := FileDamage{File: kinds[kind][random.IntN(len(kinds[kind]))], Kind: kind}
	hows := slices.Sorted(maps.Keys(damageKinds))
	h.How = hows[random.IntN(len(hows))]
	f, err := os.Open(filepath.Join(dir, h.File))
	if err != nil {
		return h, err
	}
	defer f.Close()
	if h.Size, err = written(f); err != nil {
		return h, err
	}
	if h.Size == 0 {
		h.How = "delete"
		return h, nil
	}
	h.At = random.Int64N(h.Size)
	return h, nil
}

func kindOf(file string) string {
	if kind := filepath.Ext(file); kind != "" {
		return kind
	}
	return file
}

// Apply hurts the directory.
func (h FileDamage) Apply(dir string) error {
	return damageKinds[h.How](filepath.Join(dir, h.File), h.At, h.Size)
}

// Digest returns the digest of each file of a directory, without the file that names the process with the lock. with
// passes the bytes of a file to read.
func Digest(dir string, with func(dir, file string, read func([]byte) error) error) (map[string][sha256.Size]byte, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string][sha256.Size]byte{}
	for _, f := range files {
		if f.Name() == "LOCK" {
			continue
		}
		err := with(dir, f.Name(), func(data []byte) error {
			sums[f.Name()] = sha256.Sum256(data)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}
