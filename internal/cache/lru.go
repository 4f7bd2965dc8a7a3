package cache

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// LRU holds values of type V by keys of type K. Not safe for concurrent use: its owner's mutex protects it
// together with the owner's own data.
type LRU[K comparable, V any] struct {
	// held is bounded here, by weight, and not by the library, which counts entries.
	held   *simplelru.LRU[K, weighed[V]]
	weight int
	limit  int
}

type weighed[V any] struct {
	value  V
	weight int
}

// New makes a cache with a limit of the total weight: bytes, or the number of values if each weighs 1. It
// allocates no space before the first value.
func New[K comparable, V any](limit int) *LRU[K, V] {
	// The only error is a size below 1.
	held, _ := simplelru.NewLRU[K, weighed[V]](math.MaxInt, nil)
	return &LRU[K, V]{held: held, limit: limit}
}

// Get returns the value of a key and makes it the one used last.
func (c *LRU[K, V]) Get(key K) (V, bool) {
	found, ok := c.held.Get(key)
	return found.value, ok
}

// Peek is Get without counting as a use.
func (c *LRU[K, V]) Peek(key K) (V, bool) {
	found, ok := c.held.Peek(key)
	return found.value, ok
}

// Put stores a value in place of the key's old one, as the one used last. It then drops the values used
// longest ago until the total is within the limit, but never the new one.
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

// RemoveEach drops the values of all keys for which the function returns true; it visits every key.
func (c *LRU[K, V]) RemoveEach(such func(key K) bool) {
	for _, key := range c.held.Keys() {
		if such(key) {
			c.Remove(key)
		}
	}
}

// Clear drops all.
func (c *LRU[K, V]) Clear() {
	c.held.Purge()
	c.weight = 0
}

// Len returns the number of values.
func (c *LRU[K, V]) Len() int { return c.held.Len() }

// Weight returns the total weight of the values.
func (c *LRU[K, V]) Weight() int { return c.weight }
