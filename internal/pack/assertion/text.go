package assertion

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// compileExcludes compiles the check that no text contains a word of a list. Case is ignored. mode is the default of the parameter
// match_mode. With word_boundary, a word is found only if there is no letter, digit, mark or underscore next to it.
func compileExcludes(mode string) func(*params) func(*Turn) Violation {
	return func(p *params) func(*Turn) Violation {
		words := p.wordList("words", "patterns")
		folded := make([]string, len(words))
		for i, word := range words {
			folded[i] = strings.ToLower(word)
		}
		whole := p.choice("match_mode", mode, "word_boundary", "substring") == "word_boundary"
		return func(t *Turn) Violation {
			return t.firstFault(func(text string) (from, to int, reason string) {
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

// find returns the byte offset of word in text, or -1. If whole is true, it finds only complete words.
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

// separate reports whether text[from:to] is a complete word, without a letter, digit, mark or underscore next to it.
func separate(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return (from == 0 || !inWord(before)) && (to == len(text) || !inWord(after))
}

func inWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// firstFault applies a check to every text and returns its first fault. Texts that the turn wrote into artifacts and earlier outputs are
// included.
func (t *Turn) firstFault(fault func(text string) (from, to int, reason string)) Violation {
	for _, list := range [][]Text{t.Said, t.Written, t.Earlier} {
		for _, text := range list {
			if from, to, reason := fault(text.Text); reason != "" {
				return Violation{Place: fmt.Sprintf("%s, characters %d to %d", text.Place, from+1, to), Reason: reason}
			}
		}
	}
	return Violation{}
}

// userText returns all texts of the turn for the user, as one text. ok is false if there is no text.
func (t *Turn) userText() (text string, ok bool) {
	parts := make([]string, 0, len(t.Said))
	for _, said := range t.Said {
		if said.Text != "" {
			parts = append(parts, said.Text)
		}
	}
	return strings.Join(parts, "\n"), len(parts) > 0
}

// wholeTextCheck makes a check of the complete text of a turn, which runs when the turn ends. A turn without text passes. The
// function fault returns the reason why the text fails, with the score, or "" if it passes.
func wholeTextCheck(fault func(text string) (string, float64)) func(*Turn) Violation {
	return func(t *Turn) Violation {
		text, ok := t.userText()
		if !ok || !t.Ended {
			return Violation{}
		}
		if reason, score := fault(text); reason != "" {
			return Violation{Place: "output", Reason: reason, Score: score}
		}
		return Violation{}
	}
}

func contains(p *params) func(*Turn) Violation {
	words := p.wordList("patterns")
	return wholeTextCheck(func(text string) (string, float64) {
		if missing := missingWords(text, words); len(missing) > 0 {
			return "the text does not contain " + quoted(missing), foundFraction(words, missing)
		}
		return "", 1
	})
}

// containsAny compiles the check that a text contains at least one word of a list.
func containsAny(p *params) func(*Turn) Violation {
	words := p.wordList("patterns")
	judge := wholeTextCheck(func(text string) (string, float64) {
		if len(missingWords(text, words)) == len(words) {
			return "the text contains none of " + quoted(words), 0
		}
		return "", 1
	})
	return func(t *Turn) Violation {
		for _, earlier := range t.Earlier {
			if len(missingWords(earlier.Text, words)) < len(words) {
				return Violation{}
			}
		}
		return judge(t)
	}
}

// foundFraction returns the fraction of the words that occur in the text.
func foundFraction(words, missing []string) float64 {
	return 1 - float64(len(missing))/float64(len(words))
}

// fields compiles the check that the text contains every name of a list.
func fields(p *params) func(*Turn) Violation {
	names := p.wordList("fields", "required_fields")
	return wholeTextCheck(func(text string) (string, float64) {
		if missing := missingWords(text, names); len(missing) > 0 {
			return "the text does not have the fields " + quoted(missing), foundFraction(names, missing)
		}
		return "", 1
	})
}

// missingWords returns the words that the text does not contain. Case is ignored.
func missingWords(text string, words []string) []string {
	folded := strings.ToLower(text)
	var missing []string
	for _, word := range words {
		if !strings.Contains(folded, strings.ToLower(word)) {
			missing = append(missing, word)
		}
	}
	return missing
}

// maxQuoted limits the number of words that a reason lists.
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

// matches compiles the check that a regular expression matches the complete text of the turn or, with expect_match
// false, that it matches no text.
func matches(p *params) func(*Turn) Violation {
	re, expect := p.pattern("pattern"), p.boolean("expect_match", true)
	if expect {
		return wholeTextCheck(func(text string) (string, float64) {
			if !re.MatchString(text) {
				return fmt.Sprintf("the text does not match the pattern %q", re.String()), 0
			}
			return "", 1
		})
	}
	return func(t *Turn) Violation {
		return t.firstFault(func(text string) (from, to int, reason string) {
			at := re.FindStringIndex(text)
			if at == nil {
				return 0, 0, ""
			}
			from = utf8.RuneCountInString(text[:at[0]])
			return from, from + utf8.RuneCountInString(text[at[0]:at[1]]), fmt.Sprintf("the text matches the pattern %q, which is not allowed", re.String())
		})
	}
}

// charactersPerToken is the number of characters in a token, as max_tokens estimates it.
const charactersPerToken = 4

// maxLength compiles the check that an answer, and a turn's output, has at most a given number of characters.
func maxLength(p *params) func(*Turn) Violation {
	limit, tokens := p.intAtLeast(1, "max", "max_characters", "max_chars"), p.intAtLeast(1, "max_tokens")
	switch {
	case limit < 0 && tokens < 0:
		p.setMissing("max", "is required")
	case tokens >= 0 && (limit < 0 || tokens*charactersPerToken < limit):
		limit = tokens * charactersPerToken
	}
	return func(t *Turn) Violation {
		text, _ := t.userText()
		if n := int64(utf8.RuneCountInString(text)); n > limit {
			return Violation{Place: "output", Reason: fmt.Sprintf("the text has %d characters; at most %d", n, limit), Score: float64(limit) / float64(n)}
		}
		return Violation{}
	}
}

func minLength(p *params) func(*Turn) Violation {
	p.required("min", "min_characters", "min_chars")
	limit := p.intAtLeast(0, "min", "min_characters", "min_chars")
	return wholeTextCheck(func(text string) (string, float64) {
		if n := int64(utf8.RuneCountInString(text)); n < limit {
			return fmt.Sprintf("the text has %d characters; at least %d", n, limit), float64(n) / float64(limit)
		}
		return "", 1
	})
}

// sentences compiles the check that a text has a number of sentences within bounds.
func sentences(p *params) func(*Turn) Violation {
	most, least := p.intAtLeast(0, "max", "max_sentences"), p.intAtLeast(0, "min")
	if most < 0 && least < 0 {
		p.setMissing("max", "is required, or min")
	}
	return func(t *Turn) Violation {
		text, ok := t.userText()
		n := int64(countSentences(text))
		switch {
		case most >= 0 && n > most:
			return Violation{Place: "output", Reason: fmt.Sprintf("the text has %d sentences; at most %d", n, most)}
		case ok && t.Ended && n < least:
			return Violation{Place: "output", Reason: fmt.Sprintf("the text has %d sentences; at least %d", n, least)}
		}
		return Violation{}
	}
}

// countSentences returns the number of parts of a text that are separated by full stops, exclamation marks or question marks. A text of
// these marks alone has one.
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
