package server

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// copyStore copies what the files of a store hold now, as the next process
// finds them after a SIGKILL. Holes stay holes.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Error(err)
		return
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Error(err)
	}
	for _, f := range files {
		// The lock dies with its process.
		if f.Name() == "LOCK" {
			continue
		}
		if err := copySparse(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			t.Error(err)
		}
	}
}

func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	buf, zero := make([]byte, 1<<20), make([]byte, 1<<20)
	size := int64(0)
	for {
		n, err := io.ReadFull(in, buf)
		if !bytes.Equal(buf[:n], zero[:n]) {
			if _, err := out.WriteAt(buf[:n], size); err != nil {
				return errors.Join(err, out.Close())
			}
		}
		size += int64(n)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return errors.Join(err, out.Truncate(size), out.Close())
		}
	}
}

// tearLog takes back the end of what was appended to the write-ahead log since
// an earlier copy: the disk got only the given part of it.
func tearLog(t *testing.T, before, after string, part float64) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(after, "*.mem"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %v, %v", logs, err)
	}
	from := lastByte(t, filepath.Join(before, filepath.Base(logs[0])))
	to := lastByte(t, logs[0])
	if to <= from {
		t.Fatalf("nothing was appended: %d, %d bytes", from, to)
	}
	keep := from + int64(part*float64(to-from))
	f, err := os.OpenFile(logs[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, to-keep), keep)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// lastByte is where the last byte of a preallocated file ends.
func lastByte(t *testing.T, path string) int64 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(bytes.TrimRight(content, "\x00")))
}
