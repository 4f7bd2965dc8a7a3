package assertion

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// excludes compiles a list of words that no text may contain. Case does not count. With match_mode word_boundary a word counts only where
// no letter or digit is next to it.
func excludes(mode string) func(*params) func(*Turn) Hit {
	return func(p *params) func(*Turn) Hit {
		words := p.words("words", "patterns")
		folded := make([]string, len(words))
		for i, word := range words {
			folded[i] = strings.ToLower(word)
		}
		whole := p.choice("match_mode", mode, "word_boundary", "substring") == "word_boundary"
		return func(t *Turn) Hit {
			return t.each(func(text string) (from, to int, reason string) {
				text = strings.ToLower(text)
				for i, word := range words {
					if at := find(text, folded[i], whole); at >= 0 {
						from := utf8.RuneCountInString(text[:at])
						return from, from + utf8.RuneCountInString(word), fmt.Sprintf("the text contains %q, which is not allowed", word)
					}
				}
				return 0, 0, ""
			})
		}
	}
}

// find returns the byte offset of word in text, or -1.
func find(text, word string, whole bool) int {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return -1
		}
		at += from
		if !whole || separate(text, at, at+len(word)) {
			return at
		}
		from = at + 1
	}
}

// separate reports whether text[from:to] is a word of its own.
func separate(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return (from == 0 || !inWord(before)) && (to == len(text) || !inWord(after))
}

func inWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// each returns the first fault of any text. Texts that the turn wrote into artifacts count as well.
func (t *Turn) each(fault func(text string) (from, to int, reason string)) Hit {
	for _, list := range [][]Text{t.Said, t.Written} {
		for _, text := range list {
			if from, to, reason := fault(text.Text); reason != "" {
				return Hit{Place: fmt.Sprintf("%s, characters %d to %d", text.Place, from+1, to), Reason: reason}
			}
		}
	}
	return Hit{}
}

// spoken returns all that the turn says to the user as one text. ok is false if it says nothing.
func (t *Turn) spoken() (text string, ok bool) {
	parts := make([]string, 0, len(t.Said))
	for _, said := range t.Said {
		if said.Text != "" {
			parts = append(parts, said.Text)
		}
	}
	return strings.Join(parts, "\n"), len(parts) > 0
}

// whole compiles a check of all that a turn says when it ends. A turn that says nothing passes.
func whole(fault func(text string) string) func(*Turn) Hit {
	return func(t *Turn) Hit {
		text, ok := t.spoken()
		if !ok || !t.Ended {
			return Hit{}
		}
		if reason := fault(text); reason != "" {
			return Hit{Place: "output", Reason: reason}
		}
		return Hit{}
	}
}

func contains(p *params) func(*Turn) Hit {
	words := p.words("patterns")
	return whole(func(text string) string {
		if missing := absent(text, words); len(missing) > 0 {
			return "the text does not contain " + quoted(missing)
		}
		return ""
	})
}

func containsAny(p *params) func(*Turn) Hit {
	words := p.words("patterns")
	return whole(func(text string) string {
		if len(absent(text, words)) == len(words) {
			return "the text contains none of " + quoted(words)
		}
		return ""
	})
}

// fields compiles a list of names that the text must contain.
func fields(p *params) func(*Turn) Hit {
	names := p.words("fields", "required_fields")
	return whole(func(text string) string {
		if missing := absent(text, names); len(missing) > 0 {
			return "the text does not have the fields " + quoted(missing)
		}
		return ""
	})
}

// absent returns the words that the text does not contain. Case does not count.
func absent(text string, words []string) []string {
	folded := strings.ToLower(text)
	var missing []string
	for _, word := range words {
		if !strings.Contains(folded, strings.ToLower(word)) {
			missing = append(missing, word)
		}
	}
	return missing
}

// maxQuoted bounds the words that a reason names.
const maxQuoted = 8

func quoted(words []string) string {
	var b strings.Builder
	for i, word := range words {
		if i == maxQuoted {
			fmt.Fprintf(&b, " and %d more", len(words)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", word)
	}
	return b.String()
}

// matches compiles a regular expression. With expect_match false no text may match it; else all that the turn says has to match.
func matches(p *params) func(*Turn) Hit {
	re, expect := p.pattern("pattern"), p.flag("expect_match", true)
	if expect {
		return whole(func(text string) string {
			if !re.MatchString(text) {
				return fmt.Sprintf("the text does not match the pattern %q", re.String())
			}
			return ""
		})
	}
	return func(t *Turn) Hit {
		return t.each(func(text string) (from, to int, reason string) {
			at := re.FindStringIndex(text)
			if at == nil {
				return 0, 0, ""
			}
			from = utf8.RuneCountInString(text[:at[0]])
			return from, from + utf8.RuneCountInString(text[at[0]:at[1]]), fmt.Sprintf("the text matches the pattern %q, which is not allowed", re.String())
		})
	}
}

// charactersPerToken is the length of a token that max_tokens assumes.
const charactersPerToken = 4

// maxLength compiles the length that no answer, and no output of a turn, may exceed, in characters.
func maxLength(p *params) func(*Turn) Hit {
	limit, tokens := p.count(1, "max", "max_characters", "max_chars"), p.count(1, "max_tokens")
	switch {
	case limit < 0 && tokens < 0:
		p.missing("max", "is required")
	case tokens >= 0 && (limit < 0 || tokens*charactersPerToken < limit):
		limit = tokens * charactersPerToken
	}
	return func(t *Turn) Hit {
		text, _ := t.spoken()
		if n := int64(utf8.RuneCountInString(text)); n > limit {
			return Hit{Place: "output", Reason: fmt.Sprintf("the text has %d characters; at most %d", n, limit)}
		}
		return Hit{}
	}
}

func minLength(p *params) func(*Turn) Hit {
	p.need("min", "min_characters", "min_chars")
	limit := p.count(0, "min", "min_characters", "min_chars")
	return whole(func(text string) string {
		if n := int64(utf8.RuneCountInString(text)); n < limit {
			return fmt.Sprintf("the text has %d characters; at least %d", n, limit)
		}
		return ""
	})
}

func sentences(p *params) func(*Turn) Hit {
	most, least := p.count(0, "max", "max_sentences"), p.count(0, "min")
	if most < 0 && least < 0 {
		p.missing("max", "is required, or min")
	}
	return func(t *Turn) Hit {
		text, ok := t.spoken()
		n := int64(countSentences(text))
		switch {
		case most >= 0 && n > most:
			return Hit{Place: "output", Reason: fmt.Sprintf("the text has %d sentences; at most %d", n, most)}
		case ok && t.Ended && n < least:
			return Hit{Place: "output", Reason: fmt.Sprintf("the text has %d sentences; at least %d", n, least)}
		}
		return Hit{}
	}
}

// countSentences counts the parts of a text between full stops, exclamation marks and question marks.
func countSentences(text string) int {
	n := 0
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '.' || r == '!' || r == '?' }) {
		if strings.TrimSpace(part) != "" {
			n++
		}
	}
	if n == 0 && strings.TrimSpace(text) != "" {
		return 1
	}
	return n
}
