package store

import (
	"context"
	"maps"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// TestNamespacesKeepTheirNumbers: a namespace keeps its number for ever, for any order and any selection of
// the requested names.
func TestNamespacesKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	want := map[string]uint32{"a": 1, "b": 2, "c": 3}
	for i, names := range [][]string{{"a", "b"}, {"b", "a"}, {}, {"c", "b"}, {"a"}} {
		s, err := openOn(t, Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.NumberNamespaces(ctx, names)
		if err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			got["c"] = 3
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNamespacesShareNoNumber: a check finds two namespaces with the same number.
func TestNamespacesShareNoNumber(t *testing.T) {
	t.Parallel()
	s, err := openOn(t, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.NumberNamespaces(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	look := func() error {
		_, err := s.Check(t.Context(), nil)
		return err
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), putIf(layout.NamespaceKey("b"), nil, codec.EncodeNumber(1))); err != nil {
		t.Fatal(err)
	}
	if err := look(); err == nil {
		t.Error("two names with one number are in order")
	}
}
