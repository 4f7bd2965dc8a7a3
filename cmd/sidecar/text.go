package main

import (
	"fmt"
	"maps"
	"slices"
)

// itoa returns an integer as decimal text.
func itoa[N int32 | int64 | uint32 | uint64 | int](n N) string { return fmt.Sprint(n) }

// sortedNames returns the keys of a map, sorted.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
