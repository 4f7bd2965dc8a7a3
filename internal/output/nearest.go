package output

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the allowed word that a mistyped one probably means; "" if none is near. It accepts one
// typing mistake in words of up to four letters, two in longer ones, and ignores case.
func Nearest(given string, allowed []string) string {
	word, _ := nearest(given, allowed)
	return word
}

// nearest also returns the number of mistakes.
func nearest(given string, allowed []string) (best string, mistakes int) {
	mistakes = 2
	if len(given) > 4 {
		mistakes = 3
	}
	for _, word := range allowed {
		n := levenshtein.ComputeDistance(strings.ToLower(given), strings.ToLower(word))
		// Two swapped letters count as two mistakes in a word of the same length.
		better := n < mistakes || n == mistakes && best != "" && len(word) == len(given) && len(best) != len(given)
		if better && word != given {
			best, mistakes = word, n
		}
	}
	return best, mistakes
}

// Meant returns the allowed value of an error that is nearest to a word of the command line; "" if none is
// near.
func (p Problem) Meant(args []string) string {
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
