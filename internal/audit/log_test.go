package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func add(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		if err := l.Add(Entry{Principal: "p", Method: "pawl.v1.RunService/StartRun", Outcome: "OK", Resource: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestChain: the lines of many callers, over many files and starts, form one chain.
func TestChain(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, []byte("key of the audit")} {
		o := Options{Dir: filepath.Join(t.TempDir(), "audit"), MaxBytes: 4000, Key: key}
		for range 3 {
			l := open(t, o)
			if _, err := Open(o); err == nil {
				t.Fatal("two write one audit")
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { add(t, l, 25) })
			}
			all.Wait()
			closeLog(t, l)
		}
		var seen uint64
		end, err := Verify(o.Dir, key, func(e *Entry, _ string, _ []byte) error {
			seen++
			if e.Seq != seen {
				return errors.New("out of order")
			}
			return nil
		})
		files, _ := filesOf(o.Dir)
		if err != nil || end.Seq != 300 || end.First != 1 || end.Lines != 300 || len(files) < 10 {
			t.Fatalf("%+v in %d files: %v", end, len(files), err)
		}
		if _, err := Verify(o.Dir, []byte("another key"), nil); err == nil || errors.Is(err, ErrNeedsKey) {
			t.Errorf("another key proves the chain: %v", err)
		}
	}
}

// TestNeedsKey: without the key, a log that is made with one is not reported as changed. A log of a version that did not mark its lines may be
// either.
func TestNeedsKey(t *testing.T) {
	t.Parallel()
	key := []byte("key of the audit")
	o := Options{Dir: t.TempDir(), Key: key}
	l := open(t, o)
	add(t, l, 2)
	closeLog(t, l)
	if _, err := Verify(o.Dir, nil, nil); !errors.Is(err, ErrNeedsKey) {
		t.Errorf("without the key: %v", err)
	}
	if _, err := Open(Options{Dir: o.Dir}); !errors.Is(err, ErrNeedsKey) {
		t.Errorf("a sidecar without the key: %v", err)
	}
	if _, err := Verify(o.Dir, []byte("another"), nil); err == nil || !strings.Contains(err.Error(), "the key is not that of the log") {
		t.Errorf("with another key: %v", err)
	}
	files, _ := filesOf(o.Dir)
	write := func(key []byte, e Entry) {
		line, _, err := e.line(key)
		if err == nil {
			err = os.WriteFile(files[0], line, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(key, Entry{Seq: 1, Method: "m", Outcome: "OK", Prev: zero})
	if _, err := Verify(o.Dir, key, nil); err != nil {
		t.Errorf("a line of an older version: %v", err)
	}
	if _, err := Verify(o.Dir, nil, nil); err == nil || !strings.Contains(err.Error(), "or the log is made with a key") {
		t.Errorf("a line of an older version, without the key: %v", err)
	}
	write(nil, Entry{Seq: 1, Method: "m", Outcome: "OK", Prev: zero})
	if _, err := Verify(o.Dir, key, nil); !errors.Is(err, errKeyless) {
		t.Errorf("a line that is made without the key: %v", err)
	}
}

// TestTampering: the check finds every changed byte, every line that was removed, moved or repeated, and
// every file that was removed from the middle.
func TestTampering(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir(), MaxBytes: 900}
	l := open(t, o)
	add(t, l, 12)
	closeLog(t, l)
	files, _ := filesOf(o.Dir)
	raw, err := os.ReadFile(files[1])
	if err != nil || len(files) < 3 {
		t.Fatal(len(files), err)
	}
	try := func(what string, changed []byte) {
		if err := os.WriteFile(files[1], changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if end, err := Verify(o.Dir, nil, nil); err == nil || errors.Is(err, ErrNeedsKey) {
			t.Errorf("%s: not found, %+v, %v", what, end, err)
		}
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		try(fmt.Sprintf("byte %d", i), changed)
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	for i := range len(lines) - 1 {
		try(fmt.Sprintf("without line %d", i), bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil))
		try(fmt.Sprintf("line %d twice", i), bytes.Join(append(append([][]byte{}, lines[:i+1]...), lines[i:]...), nil))
	}
	keyed := bytes.Replace(lines[1], []byte(`,"prev"`), []byte(`,"keyed":true,"prev"`), 1)
	try("a line that says that it has a key", bytes.Join([][]byte{lines[0], keyed, bytes.Join(lines[2:], nil)}, nil))
	try("two lines the other way round", bytes.Join([][]byte{lines[1], lines[0], bytes.Join(lines[2:], nil)}, nil))
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(o.Dir, nil, nil); err == nil {
		t.Error("a file that is gone from the middle is not found")
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if end, err := Verify(o.Dir, nil, nil); err != nil || end.First == 1 {
		t.Errorf("without the oldest files: %+v, %v", end, err)
	}
}

// TestCrash: after a cut at any byte, the log continues after its last whole line and records the cut. It
// does not continue after a changed line.
func TestCrash(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	l := open(t, o)
	add(t, l, 3)
	closeLog(t, l)
	files, _ := filesOf(o.Dir)
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	complete := 0
	for cut := range raw {
		if cut > 0 && raw[cut-1] == '\n' {
			complete++
		}
		if cut%7 != 0 && raw[max(cut-1, 0)] != '\n' {
			continue
		}
		if err := os.WriteFile(files[0], raw[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, o)
		add(t, l, 1)
		closeLog(t, l)
		torn := uint64(0)
		if cut > 0 && raw[cut-1] != '\n' {
			torn = 1
		}
		if end, err := Verify(o.Dir, nil, nil); err != nil || end.Lines != uint64(complete)+torn+1 {
			t.Fatalf("cut at %d: %+v, %v; want %d lines", cut, end, err, uint64(complete)+torn+1)
		}
	}
	changed := bytes.Replace(raw, []byte(`"principal":"p"`), []byte(`"principal":"q"`), 1)
	if err := os.WriteFile(files[0], changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("what was changed is written behind: %v", err)
	}
}

// TestFault: after a line could not be written, the next line that is written reports that.
func TestFault(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	l := open(t, o)
	add(t, l, 1)
	good := l.file
	broken, err := os.Open(good.Name()) // not for writing
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.file = broken
	l.mu.Unlock()
	if err := l.Add(Entry{Method: "m", Outcome: "OK"}); err == nil || l.Ready() == nil {
		t.Fatal("a line that was not written is none")
	}
	l.mu.Lock()
	l.file = good
	l.mu.Unlock()
	if err := l.Ready(); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	_ = broken.Close()
	var last Entry
	if end, err := Verify(o.Dir, nil, func(e *Entry, _ string, _ []byte) error { last = *e; return nil }); err != nil || end.Lines != 2 || !strings.Contains(last.Note, "could not be written") {
		t.Fatalf("%+v, %v, %+v", end, err, last)
	}
}

// FuzzParse: a line that is accepted has the hash of its content.
func FuzzParse(f *testing.F) {
	e := Entry{Seq: 1, Method: "m", Outcome: "OK", Prev: zero}
	line, _, err := e.line(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.TrimSuffix(line, []byte("\n")))
	f.Add([]byte(hashBefore + zero + hashAfter))
	f.Fuzz(func(t *testing.T, line []byte) {
		_, sum, err := parse(nil, line)
		if err == nil && sum != hashOf(nil, line[:len(line)-tailBytes]) {
			t.Fatalf("%q was taken", line)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	l := open(b, Options{Dir: b.TempDir()})
	defer closeLog(b, l)
	e := Entry{
		Principal: "app", Namespace: "default", Resource: "01M7YWZ645R9CSMET04ZPHE3R6", Method: "pawl.v1.RunService/EmitEvent",
		Outcome: "OK", RequestID: "e-7", Peer: "127.0.0.1:40112",
	}
	for b.Loop() {
		if err := l.Add(e); err != nil {
			b.Fatal(err)
		}
	}
}
