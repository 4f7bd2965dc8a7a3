package output

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// NearestWord returns the allowed word that a mistyped word probably means. It returns "" if no word is similar. It accepts one typing
// mistake in words of up to four letters and two in longer words. It ignores case.
func NearestWord(given string, allowed []string) string {
	word, _ := nearest(given, allowed)
	return word
}

// nearest returns the most similar word, and the number of mistakes. If no word is similar, the word is "".
func nearest(given string, allowed []string) (best string, mistakes int) {
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

// ClosestValue returns the allowed value in an error that is most similar to a word of the command line. It returns "" if none is similar.
func (p Problem) ClosestValue(args []string) string {
	best, least := "", 3
	for _, arg := range args {
		if _, value, ok := strings.Cut(arg, "="); ok {
			arg = value
		}
		if word, mistakes := nearest(arg, p.Allowed); word != "" && mistakes < least {
			best, least = word, mistakes
		}
	}
	return best
}
