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

// maxLineBytes bounds the size of a line.
const maxLineBytes = 64 << 10

// End is the result of verifying an audit log.
type End struct {
	// Lines is the number of lines that were read. First and Seq are the numbers of the first and last line.
	Lines      uint64
	First, Seq uint64
	// Hash is the hash of the last line. If an operator stores it elsewhere, it proves later that no line up to this one was changed or
	// removed.
	Hash string
	// Size is the size of the complete lines in the last file. Torn is the number of bytes of an incomplete line after them.
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

// Verify verifies an audit log from its first file to its last. If see is not nil, Verify calls it with each line and its bytes, and an
// error from see stops Verify. If the first line says that the log is made with a key, and key is nil, the error is [ErrNeedsKey]. The
// oldest files may have been removed, so the previous hash in the first line is checked only if the line has the number 1.
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

// follow verifies that a line follows the previous one.
func (end *End) follow(line, key []byte, see func(e *Entry, hash string, line []byte) error) error {
	e, sum, err := parse(key, line)
	switch {
	case errors.Is(err, ErrNeedsKey) && end.Lines > 0: // The lines before it are made without a key.
		return errHash
	case errors.Is(err, errHash) && end.Lines == 0 && len(key) == 0:
		return fmt.Errorf("%w: the line was changed, or the log is made with a key, which was not given", err)
	case errors.Is(err, errHash) && end.Lines == 0:
		return fmt.Errorf("%w: the line was changed, or the key is not that of the log", err)
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
