package dsn_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// addressesWithPassword are addresses with a password, in every place that may have one.
var addressesWithPassword = []string{
	"postgres://pawl:s3cret@db.example:5432/runs?sslmode=verify-full",
	"postgresql://pawl:s3cret@db.example/runs",
	"postgres://pawl@db.example/runs?password=s3cret",
	"postgres://pawl@db.example/runs?PASSWORD=s3cret&sslpassword=s3cret",
	"postgres://pawl:s3cret@a:1,b:2/runs",
	"postgres://pawl:a:s3cret@db/runs",
	"postgres://pawl:s3cret@db example/runs", // no URL
	"postgres://pawl:s3cret%zz@db/runs",      // no URL
	"postgres://:s3cret@db/runs",
	"mysql://pawl:s3cret@db/runs",
	"postgres://pawl:s3cret@db/runs#x",
	"pawl:s3cret@db/runs",
}

// TestAPasswordIsShownToNobody: in none of the ways in which a value is printed.
func TestAPasswordIsShownToNobody(t *testing.T) {
	t.Parallel()
	for _, text := range append(slices.Clone(addressesWithPassword), "") {
		u := dsn.Parse(text)
		if text == "" {
			u = dsn.Parse("postgres://pawl@db/runs").WithPassword("s3cret")
			if u.Secret() != "postgres://pawl:s3cret@db/runs" {
				t.Errorf("with its password it is %s", u.Secret())
			}
		} else if u.Secret() != text {
			t.Errorf("%s is lost: %s", text, u.Secret())
		}
		in := struct {
			URL   dsn.URL
			Ptr   *dsn.URL
			inner dsn.URL
			Text  map[string]dsn.URL
		}{u, &u, u, map[string]dsn.URL{"u": u}}
		var shown bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			fmt.Fprintf(&shown, verb+" "+verb+"\n", u, in)
		}
		for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
			b, err := marshal(in)
			if err != nil {
				t.Errorf("%s: %v", u, err)
			}
			shown.Write(b)
		}
		slog.New(slog.NewTextHandler(&shown, nil)).Info("x", "url", u, "in", in)
		slog.New(slog.NewJSONHandler(&shown, nil)).Info("x", "url", u, "in", in)
		fmt.Fprintln(&shown, u.Fault(), u.String(), u.Open(""), u.User(), errors.New(u.String()))
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		var set dsn.URL
		flags.Var(&set, "store", "the store")
		if err := flags.Parse([]string{"--store", text}); err != nil {
			fmt.Fprintln(&shown, err)
		}
		fmt.Fprintln(&shown, flags.FlagUsages())
		for _, secret := range []string{"s3cret", fmt.Sprintf("%x", "s3cret")} {
			if strings.Contains(shown.String(), secret) {
				t.Errorf("%s is shown:\n%s", text, shown.String())
			}
		}
	}
}

// TestScrub: neither is one in a text that quotes an address.
func TestScrub(t *testing.T) {
	t.Parallel()
	for _, text := range addressesWithPassword[:8] {
		line := dsn.Scrub(`parse "` + text + `": store: ` + text + ` is wrong`)
		if strings.Contains(line, "s3cret") || !strings.Contains(line, "is wrong") {
			t.Errorf("%s becomes %s", text, line)
		}
	}
	if line := "a line: http://u:p@h/ of another kind"; dsn.Scrub(line) != line {
		t.Error("another kind of line is changed")
	}
}

// TestFault: an address is one, or it is said why not.
func TestFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://pawl@db/runs":                       "",
		"postgresql://pawl@[::1]:5433/runs":             "",
		"postgres://pawl@/runs?host=/var/run/postgres":  "",
		"postgres://a@b:1,c:2/runs?sslmode=verify-full": "",
		"":                                    "",
		"postgres://pawl@db":                  "names no database",
		"postgres://pawl@db/":                 "names no database",
		"postgres://pawl@db/a/b":              "no name of a database",
		"postgres:///runs":                    "names no host",
		"mysql://pawl@db/runs":                "begins with",
		"/var/lib/pawl":                       "begins with",
		"postgres://pawl@db/runs?sslmode=off": "none of disable, allow, prefer, require, verify-ca, verify-full",
		"postgres://p%zz@db/runs":             "is no URL",
	} {
		if got := dsn.Parse(text).Fault(); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestOpen: who may be reached without encryption is named.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url, env string
		want     []string
	}{
		{"postgres://pawl@db/runs", "", []string{"db"}},
		{"postgres://pawl@db:5432/runs?sslmode=prefer", "verify-full", []string{"db"}},
		{"postgres://pawl@db/runs?sslmode=require", "", nil},
		{"postgres://pawl@db/runs", "verify-full", nil},
		{"postgres://pawl@db/runs", "disable", []string{"db"}},
		{"postgres://pawl@127.0.0.1:5432,localhost,10.0.0.1:3/runs", "", []string{"10.0.0.1"}},
		{"postgres://pawl@[::1]:3/runs", "", nil},
		{"postgres://pawl@[2001:db8::1]/runs", "", []string{"2001:db8::1"}},
		{"postgres://pawl@/runs?host=/var/run", "", nil},
	} {
		if got := dsn.Parse(tt.url).Open(tt.env); !slices.Equal(got, tt.want) {
			t.Errorf("%s with %q: %v, want %v", tt.url, tt.env, got, tt.want)
		}
	}
}
