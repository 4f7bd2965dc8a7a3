package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// maxLineBytes bounds a line.
const maxLineBytes = 64 << 10

// End is the end of an audit.
type End struct {
	// Lines is the number of lines read, First and Seq the numbers of the first and the last.
	Lines      uint64
	First, Seq uint64
	// Hash is that of the last line. An operator that stores it elsewhere can later prove that no line up to
	// it was changed or removed.
	Hash string
	// Size is that of the last file's complete lines; Torn the number of bytes of an incomplete line after
	// them.
	Size, Torn int64
}

func fileName(first uint64) string { return fmt.Sprintf("audit-%020d.jsonl", first) }

// filesOf returns the files of a directory in their order.
func filesOf(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "audit-*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	slices.Sort(files)
	return files, nil
}

// Verify verifies an audit from its first file to its last, and calls see with each line and its bytes; see
// may be nil, and an error from it stops Verify. The first files may have been removed: then the previous
// hash in the first line is not checked.
func Verify(dir string, key []byte, see func(e *Entry, hash string, line []byte) error) (End, error) {
	files, err := filesOf(dir)
	if err != nil {
		return End{}, err
	}
	if len(files) == 0 {
		return End{}, fmt.Errorf("audit: %s has none", dir)
	}
	return verify(files, key, see)
}

func verify(files []string, key []byte, see func(e *Entry, hash string, line []byte) error) (End, error) {
	end := End{Hash: zero}
	for _, path := range files {
		if end.Torn > 0 {
			return end, fmt.Errorf("audit: %s follows a file that ends in the middle of a line", path)
		}
		if err := end.read(path, key, see); err != nil {
			return end, fmt.Errorf("audit: %s: %w", path, err)
		}
	}
	return end, nil
}

// read verifies one file.
func (end *End) read(path string, key []byte, see func(e *Entry, hash string, line []byte) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewReaderSize(file, maxLineBytes)
	end.Size, end.Torn = 0, 0
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			end.Torn = int64(len(line))
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := end.follow(line[:len(line)-1], key, see); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		end.Size += int64(len(line))
	}
}

// follow verifies that a line is the next one.
func (end *End) follow(line, key []byte, see func(e *Entry, hash string, line []byte) error) error {
	e, sum, err := parse(key, line)
	switch {
	case err != nil:
		return err
	case end.Lines == 0 && e.Seq == 1 && e.Prev != zero:
		return errors.New("it is number 1 and follows another line")
	case end.Lines > 0 && (e.Seq != end.Seq+1 || e.Prev != end.Hash):
		return fmt.Errorf("it is number %d and does not follow number %d: a line was changed, added or taken out", e.Seq, end.Seq)
	}
	if end.Lines == 0 {
		end.First = e.Seq
	}
	end.Lines++
	end.Seq, end.Hash = e.Seq, sum
	if see == nil {
		return nil
	}
	return see(&e, sum, line)
}
