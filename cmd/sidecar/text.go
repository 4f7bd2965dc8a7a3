package main

import (
	"fmt"
	"maps"
	"slices"
)

// itoa writes any integer.
func itoa[N int32 | int64 | uint32 | uint64 | int](n N) string { return fmt.Sprint(n) }

// sortedNames are the keys of a map in order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
