package dsn

import "regexp"

var (
	inUser  = regexp.MustCompile(`(?i)(postgres(?:ql)?://[^\s:/@"']*):[^\s"']*@`)
	inQuery = regexp.MustCompile(`(?i)((?:ssl)?(?:password|passwd|pwd)=)[^\s&"']*`)
)

// Scrub takes passwords of addresses out of a text that may quote one, such as the error of a
// parser.
func Scrub(text string) string {
	return inQuery.ReplaceAllString(inUser.ReplaceAllString(text, "$1@"), "${1}(hidden)")
}
