package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// putOf returns the registration of a pack whose content depends on its name and version only.
func putOf(id, version string, makeDefault bool) machine.PackPut {
	return putBytes(id, version, fmt.Sprintf(`{"id":%q,"version":%q}`, id, version), makeDefault)
}

func putBytes(id, version, canonical string, makeDefault bool) machine.PackPut {
	sum := sha256.Sum256([]byte(canonical))
	return machine.PackPut{
		Row: machine.PackRow{
			Digest: "sha256:" + hex.EncodeToString(sum[:]), ID: id, Version: version,
			Canonical: []byte(canonical), Source: []byte("# " + canonical), RegisteredAt: testTime,
		},
		MakeDefault: makeDefault,
	}
}

func TestPacksByEveryReference(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	one, two := putOf("codegen", "1.0.0", true), putOf("codegen", "2.0.0", false)
	for _, put := range []machine.PackPut{one, two} {
		if _, err := s.PutPack(ctx, 0, put); err != nil {
			t.Fatal(err)
		}
	}
	for ref, want := range map[string]machine.PackRow{
		"codegen": one.Row, "codegen@1.0.0": one.Row, "codegen@2.0.0": two.Row, one.Row.Digest: one.Row, two.Row.Digest: two.Row,
	} {
		got, err := s.Pack(ctx, 0, ref)
		if err != nil || got.Digest != want.Digest || string(got.Canonical) != string(want.Canonical) ||
			string(got.Source) != string(want.Source) || got.Default != (want.Version == "1.0.0") {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	for _, ref := range []string{"", "codegen@3", "nobody", "sha256:00"} {
		if _, err := s.Pack(ctx, 0, ref); !errors.Is(err, machine.ErrNoPack) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if _, err := s.Pack(ctx, 7, one.Row.Digest); !errors.Is(err, machine.ErrNoPack) {
		t.Errorf("another namespace sees the pack: %v", err)
	}
}

func TestPutPackAgain(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	first, err := s.PutPack(ctx, 0, putOf("p", "1", true))
	if err != nil || !first.Default {
		t.Fatalf("%+v, %v", first, err)
	}
	later := putOf("p", "1", true)
	later.Row.RegisteredAt++
	keys := s.Stats().Keys
	again, err := s.PutPack(ctx, 0, later)
	if err != nil || again.RegisteredAt != first.RegisteredAt || again.Digest != first.Digest || s.Stats().Keys != keys {
		t.Fatalf("same bytes again: %+v, %v, %d keys written", again, err, s.Stats().Keys-keys)
	}
	other := putBytes("p", "1", `{"other":1}`, false)
	var refusal *machine.Error
	if _, err := s.PutPack(ctx, 0, other); !errors.As(err, &refusal) || refusal.Reason != "PACK_VERSION_TAKEN" {
		t.Fatalf("taken name: %v", err)
	}
	other.Move = true
	moved, err := s.PutPack(ctx, 0, other)
	if err != nil || !moved.Default {
		t.Fatalf("move: %+v, %v", moved, err)
	}
	if got, err := s.Pack(ctx, 0, "p"); err != nil || got.Digest != other.Row.Digest {
		t.Fatalf("bare id after the move: %+v, %v", got, err)
	}
	if got, err := s.Pack(ctx, 0, first.Digest); err != nil || got.Default {
		t.Fatalf("the digest that the name left: %+v, %v", got, err)
	}
	broken := putOf("p", "9", false)
	broken.Row.Digest = "sha256:11"
	if _, err := s.PutPack(ctx, 0, broken); err == nil {
		t.Fatal("a digest that is not the bytes' was taken")
	}
}

// TestPutPackRaces: of many registrations of one name with different content, one succeeds and the others
// receive PACK_VERSION_TAKEN.
func TestPutPackRaces(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.PutPack(ctx, 0, putBytes("p", "1", fmt.Sprintf(`{"n":%d}`, i), true)) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		var refusal *machine.Error
		switch {
		case err == nil:
			won++
		case !errors.As(err, &refusal) || refusal.Reason != "PACK_VERSION_TAKEN":
			t.Error(err)
		}
	}
	if won != 1 {
		t.Fatalf("%d registrations won", won)
	}
	if _, err := s.Check(ctx, nil); err != nil {
		t.Fatal(err)
	}
}

func TestListPacksPages(t *testing.T) {
	t.Parallel()
	s, ctx := openTemp(t), context.Background()
	for _, id := range []string{"b", "a", "a\x00b"} {
		for _, version := range []string{"2", "1"} {
			if _, err := s.PutPack(ctx, 0, putOf(id, version, true)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for after := ""; ; {
		page, next, err := s.ListPacks(ctx, 0, after, 2)
		if err != nil || len(page) > 2 {
			t.Fatalf("%d rows, %v", len(page), err)
		}
		for _, row := range page {
			got = append(got, fmt.Sprintf("%s@%s %v", row.ID, row.Version, row.Default))
		}
		if after = next; next == "" {
			break
		}
	}
	want := []string{"a@1 true", "a@2 false", "a\x00b@1 true", "a\x00b@2 false", "b@1 true", "b@2 false"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if _, _, err := s.ListPacks(ctx, 0, "!", 2); err == nil {
		t.Fatal("a foreign position was taken")
	}
}
