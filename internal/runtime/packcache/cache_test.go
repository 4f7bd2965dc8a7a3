package packcache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// packShelf is a store that only has packs.
type packShelf struct {
	rows map[string]machine.PackRow
}

func (s packShelf) Pack(_ context.Context, _ uint32, ref string) (machine.PackRow, error) {
	row, ok := s.rows[ref]
	if !ok {
		return row, machine.ErrNoPack
	}
	return row, nil
}

// TestProgramsAreBoundedByBytes: the limit of the cache is in bytes, so a large pack takes the
// place of many small ones. A pack that is asked for is always compiled, and the counted bytes are
// those of the packs in the cache.
func TestProgramsAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	shelf := packShelf{rows: map[string]machine.PackRow{}}
	for i := range 40 {
		text := fmt.Sprintf(`{"id":"p%d","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
			"prompts":{"a":{"id":"a","name":"A","version":"1.0.0","system_template":"%s"}}}`, i, strings.Repeat("x", 1000*(1+i%4)))
		loaded, found, err := pack.Load([]byte(text), pack.Options{})
		if err != nil || loaded == nil {
			t.Fatal(found, err)
		}
		shelf.rows[fmt.Sprint(i)] = machine.PackRow{Digest: loaded.Digest, Canonical: loaded.Canonical}
		shelf.rows[loaded.Digest] = shelf.rows[fmt.Sprint(i)]
	}
	p := newCache(shelf, pack.Options{}, 20_000)
	for round := range 3 {
		for i := range 40 {
			for _, entry := range []pack.Entry{{}, {Agent: "a"}} {
				prog, err := p.Start(context.Background(), 0, fmt.Sprint(i), entry)
				if err != nil || prog.Pack.ID != fmt.Sprintf("p%d", i) || prog.Graph == nil {
					t.Fatalf("round %d, pack %d: %+v, %v", round, i, prog, err)
				}
				held := 0
				for digest := range shelf.rows {
					if h, ok := p.packs.Peek(digest); ok {
						held += h.bytes()
					}
				}
				if held != p.packs.Weight() || held == 0 || held > p.limit {
					t.Fatalf("counted %d, held %d, limit %d", p.packs.Weight(), held, p.limit)
				}
			}
		}
	}
	p = newCache(shelf, pack.Options{}, 1)
	for _, ref := range []string{"2", "3"} {
		if prog, err := p.Start(context.Background(), 0, ref, pack.Entry{}); err != nil || prog == nil || p.packs.Len() != 1 {
			t.Fatalf("a pack above the limit: %+v, %v, %d held", prog, err, p.packs.Len())
		}
	}
}

// crowdedShelf answers only after all expected callers have asked.
type crowdedShelf struct {
	packShelf
	come *sync.WaitGroup
}

func (s crowdedShelf) Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error) {
	s.come.Done()
	s.come.Wait()
	return s.packShelf.Pack(ctx, ns, ref)
}

// TestACrowdMakesOne: callers that ask at the same time for a pack that is not in the cache all get
// the pack that the first of them made.
func TestACrowdMakesOne(t *testing.T) {
	t.Parallel()
	loaded, found, err := pack.Load([]byte(`{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
		"prompts":{"a":{"id":"a","name":"A","version":"1.0.0","system_template":"x"}}}`), pack.Options{})
	if err != nil || loaded == nil {
		t.Fatal(found, err)
	}
	var come, made sync.WaitGroup
	var got [16]*pack.Pack
	come.Add(len(got))
	p := NewCache(crowdedShelf{packShelf{map[string]machine.PackRow{loaded.Digest: {Digest: loaded.Digest, Canonical: loaded.Canonical}}}, &come}, pack.Options{})
	for i := range got {
		made.Go(func() {
			var err error
			if got[i], err = p.Pack(t.Context(), 0, loaded.Digest); err != nil {
				t.Error(err)
			}
		})
	}
	made.Wait()
	for _, one := range got {
		if one != got[0] || one == nil {
			t.Error("it was made more than once")
		}
	}
}
