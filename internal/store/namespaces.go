package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/store/codec"
)

// errNumbered: somebody else numbered the namespace meanwhile. A store has one owner,
// who does it once.
var errNumbered = errors.New("the namespace was numbered at the same time")

func namespaceKey(ns string) []byte { return name(prefix(nil, kindNamespace, 0), ns) }

// NumberNamespaces gives each namespace that has no number yet the next one, synced,
// and returns the numbers of all that ever had one. A number is a name's for ever: it is
// part of the keys of all that is stored in the namespace. The caller does not ask for
// "default", whose number is 0.
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
		key := namespaceKey(ns)
		w.expects = append(w.expects, expect{key: key, miss: errNumbered})
		w.ops = append(w.ops, Op{Key: key, Value: codec.EncodeNumber(uint64(last))})
	}
	if len(w.ops) == 0 {
		return numbers, nil
	}
	if err := s.write(ctx, w); err != nil {
		return nil, fmt.Errorf("number namespaces: %w", err)
	}
	return numbers, nil
}

// namespaces reads the numbers, and the highest of them.
func (s *Store) namespaces(ctx context.Context) (numbers map[string]uint32, last uint32, err error) {
	numbers = make(map[string]uint32)
	p := prefix(nil, kindNamespace, 0)
	err = s.rows(ctx, p, func(key, value []byte) error {
		ns, number, err := readNamespace(key, value)
		numbers[ns], last = number, max(last, number)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("namespaces: %w", err)
	}
	return numbers, last, nil
}

func readNamespace(key, value []byte) (ns string, number uint32, err error) {
	ns, rest, ok := cutName(key[min(5, len(key)):])
	n, err := codec.DecodeNumber(value)
	if err != nil {
		return ns, 0, err
	}
	if !ok || len(rest) > 0 || n == 0 || n > math.MaxUint32 {
		return ns, 0, fmt.Errorf("malformed namespace %x with number %d", key, n)
	}
	return ns, uint32(n), nil
}

// namespaces checks that no two names have one number.
func (c *checker) namespaces() error {
	taken := make(map[uint32]string)
	return c.each([]byte{kindNamespace}, func(key, value []byte) error {
		ns, number, err := readNamespace(key, value)
		if err == nil && taken[number] != "" {
			err = fmt.Errorf("%q and %q share number %d", taken[number], ns, number)
		}
		if err != nil {
			return &Fault{Row: "namespace", Detail: err.Error()}
		}
		taken[number] = ns
		return nil
	})
}
