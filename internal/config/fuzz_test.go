package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzFile: a configuration file is taken or refused with its name, and never costs much.
func FuzzFile(f *testing.F) {
	f.Add([]byte("data: ./x\nlisten: 127.0.0.1:0\npack: [a, b]\n"))
	f.Add([]byte("limits: {message_bytes: 1}\nagents:\n  a: {card: http://x}\n"))
	f.Add([]byte("a: &a [x]\nb: [*a, *a]\n"))
	f.Add([]byte(laughs))
	f.Add([]byte("small: {input: 0.15, cached: 0.075, output: .inf}\nlarge: {input: -1, output: 2e9}\n"))
	path := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		c, begin := Default(), time.Now()
		_, _ = readFile(path, &c)
		_, _ = ReadQuotas(path)
		prices, err := ReadPrices(path)
		for model, p := range prices {
			for _, usd := range []*float64{&p.Input, &p.Output, p.Cached, p.Reasoning} {
				if err != nil || model == "" || usd != nil && !(*usd >= 0 && *usd <= maxPrice) {
					t.Fatalf("took %q: %+v, %v", model, p, err)
				}
			}
		}
		_, _ = ReadModels(path)
		_, _ = ReadCallLimits(path)
		_, _, _ = ReadBudgets(path)
		_, _, _ = ReadSchedules(path, []string{"default"})
		if took := time.Since(begin); took > 20*time.Second {
			t.Fatalf("%d bytes took %v", len(raw), took)
		}
	})
}

// laughs is a billion values in a few lines.
const laughs = `a: &a [x, x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
h: &h [*g, *g, *g, *g, *g, *g, *g, *g, *g, *g]
pack: *h
`

// TestAliasBomb: a file whose aliases are a hundred million values is refused unread.
func TestAliasBomb(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(laughs), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Default()
	if _, err := readFile(path, &c); err == nil || !strings.Contains(err.Error(), "10000 values") {
		t.Errorf("got %v", err)
	}
	few := "listen: &here 127.0.0.1:0\nhttp: *here\n"
	if err := os.WriteFile(path, []byte(few), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(path, &c); err != nil || c.HTTP != "127.0.0.1:0" {
		t.Errorf("an alias: %v, %q", err, c.HTTP)
	}
}
