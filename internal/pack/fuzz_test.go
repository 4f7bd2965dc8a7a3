package pack

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/pack/cost"
)

// FuzzLoad: no document causes a panic or takes for ever. A pack that loads also loads from its canonical form
// and has the same digest there. Everything that is made from it works.
func FuzzLoad(f *testing.F) {
	for _, src := range examples(f) {
		f.Add(src)
	}
	f.Add([]byte(base))
	f.Add([]byte(yamlBase))
	for _, c := range readRuleCases {
		if len(c.change) < 4096 {
			f.Add([]byte(c.change))
		}
	}
	for _, c := range ruleCases {
		f.Add(changedPack(f, c.change))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		begin := time.Now()
		p, ds, err := Load(src, Options{})
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Fatalf("%d bytes took %v", len(src), d)
		}
		if (p == nil) != HasErrors(ds) {
			t.Fatalf("pack %v with\n%s", p, render(ds))
		}
		for _, d := range ds {
			if d.Code == "" || d.Message == "" || d.Code != ruleMore && (d.Line < 1 || d.Column < 1) {
				t.Fatalf("incomplete: %+v", d)
			}
		}
		if p != nil {
			exercise(t, p)
		}
	})
}

// exercise makes everything from a pack that can be made.
func exercise(t *testing.T, p *Pack) {
	t.Helper()
	again, ds, err := Load(p.Canonical, Options{})
	if err != nil || again == nil || again.Digest != p.Digest || !bytes.Equal(again.Canonical, p.Canonical) {
		t.Fatalf("canonical form: %v\n%s", err, render(ds))
	}
	p.Analyze()
	entries := []Entry{{}}
	for _, s := range p.States() {
		entries = append(entries, Entry{State: s})
	}
	for _, m := range p.Members() {
		entries = append(entries, Entry{Agent: m})
	}
	for _, entry := range entries {
		g, err := p.Compile(entry)
		var unsupported *UnsupportedError
		if errors.As(err, &unsupported) && p.Supports(entry) != nil {
			continue
		}
		if err != nil {
			if entry == (Entry{}) && p.Doc.Workflow == nil && p.Doc.Agents == nil {
				continue
			}
			t.Fatal(err)
		}
		checkGraph(t, g)
		if _, _, err := p.CheckVariables(entry, nil); err != nil {
			t.Fatal(err)
		}
	}
	for tool := range p.Doc.Tools {
		p.CheckPayload(tool, []byte(`{"q":1}`))
	}
}

// FuzzPayload: for any schema and any payload, the check accepts or refuses the payload, and it does not take
// long.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"x":{"pattern":"(?:.*a){9}b"}}}`), []byte(`{"x":"aaaa"}`))
	f.Add([]byte(nesting), []byte(`{"x":{"x":{"x":{}}}}`))
	f.Add([]byte(`{"uniqueItems":true,"items":{"multipleOf":1e-300}}`), []byte(`{"a":[1e308,1]}`))
	f.Fuzz(func(t *testing.T, text, payload []byte) {
		if len(text) > 16<<10 || len(payload) > 16<<10 {
			return
		}
		begin := time.Now()
		s, err := compileParameters("t", cost.NewPatterns(), text)
		if err != nil || cost.Check(s.compiled) != nil {
			return
		}
		p := &Pack{schemas: map[string]*schema{"t": s}}
		_ = p.CheckPayload("t", payload)
		if took := time.Since(begin); took > 20*time.Second {
			t.Fatalf("%v", took)
		}
	})
}
