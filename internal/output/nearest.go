package output

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// ClosestValue returns the allowed value in an error that is most similar to a word of the command line. It returns "" if none is similar.
func (p Problem) ClosestValue(args []string) string {
	best, least := "", 3
	for _, arg := range args {
		if _, value, ok := strings.Cut(arg, "="); ok {
			arg = value
		}
		if word, mistakes := nearest.Find(arg, p.Allowed); word != "" && mistakes < least {
			best, least = word, mistakes
		}
	}
	return best
}
