package cache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is the simplest form of a cache: a list, with the value used last at the end.
type model []struct {
	key    int
	weight int
}

func (m model) at(key int) int {
	for i := range m {
		if m[i].key == key {
			return i
		}
	}
	return -1
}

func (m model) weight() (sum int) {
	for _, one := range m {
		sum += one.weight
	}
	return sum
}

func (m model) without(i int) model { return append(m[:i:i], m[i+1:]...) }

// put is LRU.Put.
func (m model) put(key, weight, limit int) model {
	if i := m.at(key); i >= 0 {
		m = m.without(i)
	}
	m = append(m, struct{ key, weight int }{key, weight})
	for m.weight() > limit && len(m) > 1 {
		m = m[1:]
	}
	return m
}

// TestLRUIsItsModel: after any sequence of calls, the cache holds the same values as the model, with the
// same weight. The weight is at most the limit, unless there is only one value.
func TestLRUIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		c, m := New[int, int](limit), model(nil)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 6).Draw(t, "key")
			switch rapid.SampledFrom([]string{"put", "put", "get", "peek", "remove", "remove each", "clear"}).Draw(t, "what") {
			case "put":
				weight := rapid.IntRange(0, 5).Draw(t, "weight")
				c.Put(key, key*10, weight)
				m = m.put(key, weight, limit)
			case "get":
				value, ok := c.Get(key)
				if i := m.at(key); ok != (i >= 0) || ok && value != key*10 {
					t.Fatalf("get %d: %d, %v", key, value, ok)
				} else if ok {
					m = append(m.without(i), m[i])
				}
			case "peek":
				if value, ok := c.Peek(key); ok != (m.at(key) >= 0) || ok && value != key*10 {
					t.Fatalf("peek %d: %d, %v", key, value, ok)
				}
			case "remove":
				c.Remove(key)
				if i := m.at(key); i >= 0 {
					m = m.without(i)
				}
			case "remove each":
				such := func(key int) bool { return key%3 == 0 }
				c.RemoveEach(such)
				m = slices.DeleteFunc(m, func(one struct{ key, weight int }) bool { return such(one.key) })
			case "clear":
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					c.Clear()
					m = nil
				}
			}
			if c.Len() != len(m) || c.Weight() != m.weight() || c.Weight() > limit && c.Len() > 1 {
				t.Fatalf("holds %d of weight %d, want %v, limit %d", c.Len(), c.Weight(), m, limit)
			}
		}
		for _, one := range m {
			if _, ok := c.Peek(one.key); !ok {
				t.Fatalf("%d is gone; want %v", one.key, m)
			}
		}
	})
}
