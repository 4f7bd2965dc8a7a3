package dsn

import "regexp"

var (
	inUser  = regexp.MustCompile(`(?i)(postgres(?:ql)?://[^\s:/@"']*):[^\s"']*@`)
	inQuery = regexp.MustCompile(`(?i)((?:ssl)?(?:password|passwd|pwd)=)[^\s&"']*`)
)

// Scrub removes passwords of addresses from a text that may quote one, for example the error of
// a parser.
func Scrub(text string) string {
	return inQuery.ReplaceAllString(inUser.ReplaceAllString(text, "$1@"), "${1}(hidden)")
}
