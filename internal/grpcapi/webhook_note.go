package grpcapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/decisionlink"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// note is the content of a webhook message for people.
type note struct {
	// title is one line. facts are further lines.
	title string
	facts []string
	// arguments are the arguments of the tool call that waits for approval, in a readable form. It is "" if the
	// message does not contain them.
	arguments string
	// link is the decision link for the tool call that waits for approval. It is "" if the message has none.
	link string
}

// maxNoteArguments limits the arguments in a message, in bytes, because a block of Slack has at most
// 3000 characters. The page of the link shows the full arguments.
const maxNoteArguments = 2500

// noteOf returns the content of the message about a record. ok is false if the record is a tool call that does not
// need a person's decision; then no message is sent.
func noteOf(record *pawlv1.Record, link string, ends time.Time) (note, bool) {
	run := "Run " + record.GetRunId()
	requested := record.GetStepRequested()
	if requested == nil {
		kind := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(kindOf(record).String(), "RECORD_KIND_"), "_", " "))
		return note{title: fmt.Sprintf("%s: %s", run, kind), facts: []string{"Record " + fmt.Sprint(record.GetSeq())}}, true
	}
	if requested.GetHold() == nil {
		return note{}, false
	}
	n := note{
		title: "Approve a call of " + requested.GetTool() + "?", link: link, arguments: clipped(decisionlink.Arguments(requested.GetPayloadJson())),
		facts: []string{fmt.Sprintf("%s, step %d", run, requested.GetStep())},
	}
	if requested.GetDeadline() != nil {
		n.facts = append(n.facts, "Decide until "+shortTime(requested.GetDeadline().AsTime()))
	}
	if !ends.IsZero() {
		n.facts = append(n.facts, "The link ends "+shortTime(ends))
	}
	if link == "" {
		n.facts = append(n.facts, fmt.Sprintf("Decide with: pawl approvals show %s %d", record.GetRunId(), requested.GetStep()))
	}
	return n, true
}

func kindOf(record *pawlv1.Record) pawlv1.RecordKind {
	body := record.ProtoReflect().WhichOneof(record.ProtoReflect().Descriptor().Oneofs().ByName("body"))
	if body == nil {
		return pawlv1.RecordKind_RECORD_KIND_UNSPECIFIED
	}
	return pawlv1.RecordKind(pawlv1.RecordKind_value["RECORD_KIND_"+strings.ToUpper(string(body.Name()))])
}

func shortTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func clipped(text string) string {
	if len(text) <= maxNoteArguments {
		return text
	}
	return strings.ToValidUTF8(text[:maxNoteArguments], "") + "\n… the page of the link shows all"
}

// decideText is the text of the button.
const decideText = "View and decide"

// write returns the message in one of the formats that are for people.
func (n note) write(format machine.MessageFormat) (mediaType string, body []byte, err error) {
	switch format {
	case machine.FormatSlack:
		body, err = json.Marshal(n.slack())
		return "application/json", body, err
	case machine.FormatTeams:
		body, err = json.Marshal(n.teams())
		return "application/json", body, err
	}
	return "text/plain; charset=utf-8", n.text(), nil
}

// object is a JSON object of a message to Slack or Teams.
type object map[string]any

// slack returns a message with blocks. All text of the run is in elements without markup, or is escaped, so that a model
// cannot create a link or a mention.
func (n note) slack() object {
	plain := func(text string) object { return object{"type": "plain_text", "text": text} }
	parts := []object{{"type": "rich_text_section", "elements": []object{{"type": "text", "text": strings.Join(n.facts, "\n")}}}}
	if n.arguments != "" {
		parts = append(parts, object{"type": "rich_text_preformatted", "elements": []object{{"type": "text", "text": n.arguments}}})
	}
	blocks := []object{{"type": "header", "text": plain(clipTo(n.title, 150))}, {"type": "rich_text", "elements": parts}}
	if n.link != "" {
		blocks = append(blocks, object{"type": "actions", "elements": []object{
			{"type": "button", "text": plain(decideText), "url": n.link, "style": "primary"},
		}})
	}
	return object{"text": slackEscape.Replace(n.title), "blocks": blocks, "unfurl_links": false, "unfurl_media": false}
}

// slackEscape escapes the characters that have a special meaning in Slack's text.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func clipTo(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// teams returns a message with an Adaptive Card. All text of the run is in text runs, which do not
// interpret Markdown.
func (n note) teams() object {
	run := func(text string, with object) object {
		inline := object{"type": "TextRun", "text": text}
		maps.Copy(inline, with)
		return object{"type": "RichTextBlock", "inlines": []object{inline}}
	}
	body := []object{run(n.title, object{"weight": "Bolder", "size": "Medium"})}
	for _, fact := range n.facts {
		body = append(body, run(fact, nil))
	}
	if n.arguments != "" {
		body = append(body, run(n.arguments, object{"fontType": "Monospace"}))
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
	if n.link != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": decideText, "url": n.link}}
	}
	return object{"type": "message", "attachments": []object{
		{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card},
	}}
}

// text returns the body of a mail. It contains the title, the facts, the arguments, and the link on a
// line of its own.
func (n note) text() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", n.title, strings.Join(n.facts, "\n"))
	if n.arguments != "" {
		fmt.Fprintf(&b, "\n%s\n", n.arguments)
	}
	if n.link != "" {
		fmt.Fprintf(&b, "\n%s:\n%s\n", decideText, n.link)
	}
	return []byte(b.String())
}
