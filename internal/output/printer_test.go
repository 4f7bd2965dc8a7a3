package output

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewPrinterColoursTerminalsOnly: a file and the null device are no terminals.
func TestNewPrinterColoursTerminalsOnly(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(file.Close(), null.Close()) })
	for _, f := range []*os.File{file, null} {
		if p := NewPrinter(f, null); p.Color || p.Out != f || p.Err != null {
			t.Errorf("%s: %+v", f.Name(), p)
		}
	}
}

func TestColoursByMeaning(t *testing.T) {
	t.Parallel()
	plain, painted := &Printer{}, &Printer{Color: true}
	for name, paint := range map[string]func(p *Printer) string{
		bold:   func(p *Printer) string { return p.Bold("x") },
		dim:    func(p *Printer) string { return p.Dim("x") },
		green:  func(p *Printer) string { return p.Good("x") },
		red:    func(p *Printer) string { return p.Bad("x") },
		yellow: func(p *Printer) string { return p.Warn("x") },
	} {
		if got := paint(plain); got != "x" {
			t.Errorf("without colours %q", got)
		}
		if got, want := paint(painted), "\x1b["+name+"mx\x1b[0m"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if painted.Bold("") != "" {
		t.Error("nothing is painted")
	}
	for status, code := range map[string]string{"COMPLETED": green, "RUNNING": cyan, "WAITING": yellow, "FAILED": red, "CANCELLED": red} {
		if got := painted.Status(status); !strings.HasPrefix(got, "\x1b["+code+"m") {
			t.Errorf("%s is %q", status, got)
		}
	}
}

// TestFailWhereJSONCannotBeWritten: if Fail cannot write JSON, it writes the error as text.
func TestFailWhereJSONCannotBeWritten(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	p := &Printer{Out: brokenPipe{}, Err: &text, JSON: true}
	p.Fail(errors.New("what"))
	if text.String() != "error: what\n" {
		t.Errorf("told %q", text.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestVisibleOfCutColour(t *testing.T) {
	t.Parallel()
	if got := visible("ab\x1b[31"); got != 6 {
		t.Errorf("an escape that never ends counts as it is: %d", got)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	o := Object{{"b", 1}, {"a", "<x>"}}
	more := o.WithField("c", nil)
	if o.Get("a") != "<x>" || o.Get("c") != nil || len(o) != 2 {
		t.Errorf("%v", o)
	}
	if other := o.WithField("d", 2); more.Get("d") != nil || other.Get("c") != nil {
		t.Error("two objects share their last field")
	}
	var line bytes.Buffer
	if err := WriteLine(&line, more); err != nil || line.String() != `{"b":1,"a":"<x>","c":null}`+"\n" {
		t.Errorf("%q, %v", line.String(), err)
	}
	if err := WriteLine(&line, Object{{"f", func() {}}}); err == nil {
		t.Error("a function has no JSON form")
	}
}
