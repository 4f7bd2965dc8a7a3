package runfile

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// smallFile is a small file.
func smallFile(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{RunID: "r", Digest: "sha256:00", Entry: "plan", Records: 2, Hash: "00"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		w.Frame(KindPack, []byte("{}")), w.Frame(KindEntry, []byte("entry")), w.Frame(KindEntry, nil),
		w.JSON(KindBlob, Blob{SHA256: "00", Size: 1}), w.Frame(KindPiece, []byte("x")), w.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func read(file []byte) (kinds []Kind, err error) {
	r, err := NewReader(bytes.NewReader(file))
	for err == nil {
		var kind Kind
		if kind, _, err = r.Next(); err == nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds, err
}

func TestReadBack(t *testing.T) {
	t.Parallel()
	kinds, err := read(smallFile(t))
	if !errors.Is(err, io.EOF) || len(kinds) != 5 || kinds[0] != KindPack || kinds[4] != KindPiece {
		t.Fatalf("%v, %v", kinds, err)
	}
	w := &Writer{}
	if err := w.Frame(KindPiece, make([]byte, MaxFrame+1)); err == nil {
		t.Fatal("a frame that is too large was written")
	}
}

// FuzzReader: any bytes are a sealed file or one of three errors.
func FuzzReader(f *testing.F) {
	file := smallFile(f)
	f.Add(file)
	f.Add(file[:len(file)-1])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, err := read(file)
		for _, known := range []error{io.EOF, ErrInvalid, ErrTruncated, ErrNewer} {
			if errors.Is(err, known) {
				return
			}
		}
		t.Fatalf("error %v", err)
	})
}
