package diagram

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
)

// FuzzDraw: each pack that loads can be drawn in every form, whole and from each entry.
func FuzzDraw(f *testing.F) {
	paths, err := filepath.Glob("../../testdata/packs/*")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add(fmt.Appendf(nil, document, `["b"]`, `{"version":2,"entry":"s","states":{"s":{"prompt_task":"a","terminal":true}}}`, `{"b":{}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, _, err := pack.Load(src, pack.Options{})
		if err != nil || p == nil {
			return
		}
		drawable(t, Of(p))
		for _, state := range p.States() {
			g, err := p.Compile(pack.Entry{State: state})
			if err != nil {
				t.Fatal(err)
			}
			drawable(t, Of(p).ReachableFrom(g))
		}
	})
}

func drawable(t *testing.T, d *Diagram) {
	t.Helper()
	if _, err := json.Marshal(d); err != nil || d.Mermaid() == "" || d.DOT() == "" {
		t.Fatal(err)
	}
	for dec := xml.NewDecoder(strings.NewReader(d.SVG())); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
