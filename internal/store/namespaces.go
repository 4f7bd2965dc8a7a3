package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// errNumbered means that another caller numbered the namespace at the same time. Normally this does not
// happen, because only the owner of a store numbers namespaces, once.
var errNumbered = errors.New("the namespace was numbered at the same time")

// NumberNamespaces assigns the next number to each namespace that has none, and waits until this is
// synced. It returns the numbers of all namespaces that ever had one. A namespace keeps its number
// permanently, because the keys of all its rows contain the number. The caller must not pass "default",
// whose number is 0.
func (s *Store) NumberNamespaces(ctx context.Context, names []string) (map[string]uint32, error) {
	numbers, last, err := s.namespaces(ctx)
	if err != nil {
		return nil, err
	}
	w := &Writes{entry: -1}
	for _, ns := range names {
		if _, known := numbers[ns]; known {
			continue
		}
		if last == math.MaxUint32 {
			return nil, fmt.Errorf("namespace %q: no number is left", ns)
		}
		last++
		numbers[ns] = last
		key := layout.NamespaceKey(ns)
		w.expects = append(w.expects, expect{key: key, err: errNumbered})
		w.ops = append(w.ops, layout.Op{Key: key, Value: codec.EncodeNumber(uint64(last))})
	}
	if len(w.ops) == 0 {
		return numbers, nil
	}
	if err := s.write(ctx, w); err != nil {
		return nil, fmt.Errorf("number namespaces: %w", err)
	}
	return numbers, nil
}

// namespaces reads the numbers of all namespaces. last is the highest number.
func (s *Store) namespaces(ctx context.Context) (numbers map[string]uint32, last uint32, err error) {
	numbers = make(map[string]uint32)
	p := layout.Prefix(nil, layout.KindNamespace, 0)
	err = s.rows(ctx, p, func(key, value []byte) error {
		ns, number, err := layout.ReadNamespace(key, value)
		numbers[ns], last = number, max(last, number)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("namespaces: %w", err)
	}
	return numbers, last, nil
}
