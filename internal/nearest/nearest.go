// Package nearest finds the word that a mistyped word probably means.
package nearest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Word returns the allowed word that a mistyped word probably means. It returns "" if no word is similar. It accepts one typing
// mistake in words of up to four letters and two in longer words. It ignores case.
func Word(given string, allowed []string) string {
	word, _ := Find(given, allowed)
	return word
}

// Find returns the most similar word, as Word does, and the number of mistakes. If no word is similar, the word is "".
func Find(given string, allowed []string) (best string, mistakes int) {
	mistakes = 2
	if len(given) > 4 {
		mistakes = 3
	}
	for _, word := range allowed {
		n := levenshtein.ComputeDistance(strings.ToLower(given), strings.ToLower(word))
		// If two words have equally many mistakes, a word of the same length is better: two swapped letters, which
		// are a common mistake, count as two.
		better := n < mistakes || n == mistakes && best != "" && len(word) == len(given) && len(best) != len(given)
		if better && word != given {
			best, mistakes = word, n
		}
	}
	return best, mistakes
}
