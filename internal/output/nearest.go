package output

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest is the word that a mistyped one was probably meant to be, of those allowed; ""
// if none is near: one typing mistake in words of up to four letters, two in longer ones.
// Capitals do not count.
func Nearest(given string, allowed []string) string {
	word, _ := nearest(given, allowed)
	return word
}

// nearest says how near, too.
func nearest(given string, allowed []string) (best string, mistakes int) {
	mistakes = 2
	if len(given) > 4 {
		mistakes = 3
	}
	for _, word := range allowed {
		n := levenshtein.ComputeDistance(strings.ToLower(given), strings.ToLower(word))
		// Letters that changed places are two mistakes, of a word of the same length.
		better := n < mistakes || n == mistakes && best != "" && len(word) == len(given) && len(best) != len(given)
		if better && word != given {
			best, mistakes = word, n
		}
	}
	return best, mistakes
}

// Meant is what one of the words of a command line was probably meant to be, the nearest,
// of the values that a refusal allows; "" if nothing is near.
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
