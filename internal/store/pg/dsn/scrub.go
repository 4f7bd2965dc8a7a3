package dsn

import "regexp"

var (
	inUser  = regexp.MustCompile(`(?i)(postgres(?:ql)?://[^\s:/@"']*):[^\s"']*@`)
	inQuery = regexp.MustCompile(`(?i)((?:ssl)?(?:password|passwd|pwd)=)[^\s&"']*`)
)

// Scrub removes the passwords of addresses from a text, for example from the error of a parser that
// contains an address.
func Scrub(text string) string {
	return inQuery.ReplaceAllString(inUser.ReplaceAllString(text, "$1@"), "${1}(hidden)")
}
