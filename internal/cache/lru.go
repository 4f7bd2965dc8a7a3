package cache

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// LRU stores values of type V by keys of type K. It is not safe for concurrent use. The mutex of its owner protects it together with the
// owner's other data.
type LRU[K comparable, V any] struct {
	// held is bounded by weight in this package. The library counts only entries.
	held   *simplelru.LRU[K, weighed[V]]
	weight int
	limit  int
}

type weighed[V any] struct {
	value  V
	weight int
}

// New returns a cache whose total weight is limited. The unit of the weight is the caller's, for example bytes; if each value weighs 1,
// the limit is the number of values. New allocates no space for values.
func New[K comparable, V any](limit int) *LRU[K, V] {
	// The only possible error is a size below 1.
	held, _ := simplelru.NewLRU[K, weighed[V]](math.MaxInt, nil)
	return &LRU[K, V]{held: held, limit: limit}
}

// Get returns the value of a key and marks it as the value that was used last.
func (c *LRU[K, V]) Get(key K) (V, bool) {
	found, ok := c.held.Get(key)
	return found.value, ok
}

// Peek returns the value of a key. Unlike Get it does not count as a use.
func (c *LRU[K, V]) Peek(key K) (V, bool) {
	found, ok := c.held.Peek(key)
	return found.value, ok
}

// Put stores a value in place of the old value of the key, and marks it as the value that was used last. Then it drops the values that
// were used longest ago until the total weight is within the limit. It never drops the new value.
func (c *LRU[K, V]) Put(key K, value V, weight int) {
	before, _ := c.held.Peek(key)
	c.held.Add(key, weighed[V]{value, weight})
	c.weight += weight - before.weight
	for c.weight > c.limit && c.held.Len() > 1 {
		_, oldest, _ := c.held.RemoveOldest()
		c.weight -= oldest.weight
	}
}

// Remove drops the value of a key, if there is one.
func (c *LRU[K, V]) Remove(key K) {
	found, _ := c.held.Peek(key)
	c.held.Remove(key)
	c.weight -= found.weight
}

// RemoveEach drops the values of all keys for which the function such returns true. It visits every key.
func (c *LRU[K, V]) RemoveEach(such func(key K) bool) {
	for _, key := range c.held.Keys() {
		if such(key) {
			c.Remove(key)
		}
	}
}

// Clear drops all values.
func (c *LRU[K, V]) Clear() {
	c.held.Purge()
	c.weight = 0
}

// Len returns the number of values.
func (c *LRU[K, V]) Len() int { return c.held.Len() }

// Weight returns the total weight of the values.
func (c *LRU[K, V]) Weight() int { return c.weight }
