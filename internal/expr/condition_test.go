package expr

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func language(t testing.TB) *Language {
	l, err := NewLanguage([]string{"payload", "variables", "artifacts"}, []string{"tool", "model"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func vars(t testing.TB, payload string) map[string]any {
	p, err := Value([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"payload": p, "variables": map[string]any{"limit": 100.0}, "artifacts": map[string]any{"note": "x"}, "tool": "refund", "model": "m"}
}

// TestHolds: conditions that are true, conditions that are false, and conditions that cannot be evaluated.
func TestHolds(t *testing.T) {
	t.Parallel()
	l := language(t)
	for _, c := range []struct{ text, payload, want string }{
		{`payload.amount > 100`, `{"amount":101}`, "true"},
		{`payload.amount > 100`, `{"amount":100.5}`, "true"},
		{`payload.amount > 100`, `{"amount":100}`, "false"},
		{`payload.amount == 100`, `{"amount":1e2}`, "true"},
		{`payload.amount > variables.limit`, `{"amount":101}`, "true"},
		{`payload.items.exists(i, i.sku.startsWith("X"))`, `{"items":[{"sku":"A"},{"sku":"XY"}]}`, "true"},
		{`has(payload.amount) && payload.amount > 5`, `{}`, "false"},
		{`payload.to.matches("@example[.]com$")`, `{"to":"a@example.com"}`, "true"},
		{`artifacts.note == "x" && tool == "refund"`, `{}`, "true"},
		{`payload.amount > 100`, `{}`, "no such key: amount"},
		{`payload.amount > 100`, `{"amount":"many"}`, "no such overload"},
		{`payload.amount / 0 > 1`, `{"amount":1}`, "no such overload"},
		{`payload.flag`, `{"flag":true}`, "true"},
		// Names are exact, and so are whole numbers that doubles do not tell apart.
		{`payload.message != "hello"`, `{"message":"hello","Message":"call"}`, "false"},
		{`payload.Message != "hello"`, `{"message":"hello"}`, "no such key: Message"},
		{`payload.id == 9007199254740993`, `{"id":9007199254740993}`, "true"},
		{`9007199254740993 == payload.id`, `{"id":9007199254740993}`, "true"},
		{`payload.id == 9007199254740992`, `{"id":9007199254740993}`, "false"},
		{`payload.id > payload.most`, `{"id":9007199254740993,"most":9007199254740992}`, "true"},
		{`payload.id > payload.most`, `{"id":9007199254740993,"most":9.007199254740993e15}`, "false"},
		{`payload.id in payload.known`, `{"id":9007199254740993,"known":[9007199254740992,1]}`, "false"},
		{`payload.a == payload.b`, `{"a":{"id":9007199254740993},"b":{"id":9007199254740992}}`, "false"},
		{`payload.id > variables.limit`, `{"id":18446744073709551615}`, "true"},
		{`payload.id > 18446744073709551614u`, `{"id":18446744073709551615}`, "true"},
		{`payload.id > 100.0 && payload.id < -9007199254740992`, `{"id":-9007199254740993}`, "false"},
		{`payload.id < -9007199254740992`, `{"id":-9007199254740993}`, "true"},
		{`payload.n == 1e22`, `{"n":10000000000000000000000}`, "true"},
		{`payload.flag`, `{"flag":"yes"}`, "want a bool"},
		{`payload.a.all(x, payload.a.all(y, payload.a.all(z, x + y + z >= 0.0)))`, `{"a":[` + strings.Repeat("1,", 199) + `1]}`, "cost limit exceeded"},
	} {
		p, err := l.Compile(c.text, Bool)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got, err := p.Holds(vars(t, c.payload))
		var own *Error
		switch {
		case err == nil && c.want == "true" && got, err == nil && c.want == "false" && !got:
		case errors.As(err, &own) && strings.Contains(own.Message, c.want):
		default:
			t.Errorf("%s of %s: %v, %v; want %s", c.text, c.payload, got, err, c.want)
		}
	}
}

// TestNumbersThatNoExpressionSees: a number that an expression would see as a different number is refused,
// with its place.
func TestNumbersThatNoExpressionSees(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":[{"b/c":1e400}]}`: "/a/0/b~1c: the number 1e400", `{"n":123456789012345678901}`: "/n: the number 123456789012345678901",
		`{"n":0.1000000000000000055511151231257827}`: "/n: the number", `{"n":1e-400}`: "/n: the number", `{"n":1,"n":2}`: "twice", `{`: "",
	} {
		if _, err := Value([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestCompileRefuses: Compile refuses a text that is no condition before anything runs. The error says what is
// wrong.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	l := language(t)
	for text, want := range map[string]string{
		``:                        "1 to 4096 bytes",
		`payload.amount >`:        "1:",
		`payload.amount > amount`: "undeclared reference",
		`now() > 1`:               "undeclared reference",
		`"a" + "b"`:               "it gives string, want bool",
		`1 + 1`:                   "it gives int, want bool",
		`payload.matches("(")`:    "",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): "",
		strings.Repeat("true && ", 600) + "true":                     "1 to 4096 bytes",
	} {
		p, err := l.Compile(text, Bool)
		var own *Error
		if p != nil || !errors.As(err, &own) || own.Message == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// TestKeys: texts, as limits name what they count.
func TestKeys(t *testing.T) {
	t.Parallel()
	l := language(t)
	p, err := l.Compile(`tool + "/" + string(payload.tenant)`, Text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Text(vars(t, `{"tenant":"a"}`)); err != nil || got != "refund/a" {
		t.Fatal(got, err)
	}
	if _, err := p.Text(vars(t, `{"tenant":"`+strings.Repeat("x", 2000)+`"}`)); err == nil {
		t.Error("a key of 2000 bytes was taken")
	}
	if !p.Reads("payload") || !p.Reads("tool") || p.Reads("artifacts") || p.Reads("variables") {
		t.Error("what it reads is told wrong")
	}
	if _, err := l.Compile(`payload.tenant == "a"`, Text); err == nil {
		t.Error("a bool was taken for a text")
	}
}

// TestLongEvaluationsEnd: an evaluation ends within ten seconds, even with a large payload.
func TestLongEvaluationsEnd(t *testing.T) {
	t.Parallel()
	l := language(t)
	big := `{"a":[` + strings.Repeat(`"`+strings.Repeat("a", 1000)+`",`, 900) + `"b"],"re":"(a{1000}){1000}","s":"` + strings.Repeat("a", 60_000) + `"}`
	values := vars(t, big)
	for _, text := range []string{
		`payload.a.all(x, payload.a.exists(y, x + y == "q") || true)`,
		`payload.s.matches(payload.re)`,
		`payload.a.map(x, payload.a.map(y, x + y)).size() > 0`,
		`payload.a.all(x, x.matches("(a*)*(a*)*b"))`,
		`payload.a.filter(x, payload.a.filter(y, payload.s.contains(x + y)).size() > 0).size() > 3`,
	} {
		p, err := l.Compile(text, Bool)
		if err != nil {
			continue
		}
		begun := time.Now()
		_, err = p.Holds(values)
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("%s took %s (%v)", text, d, err)
		} else {
			t.Log(text, d, err)
		}
	}
}

// FuzzCompile: no text and no payload panics.
func FuzzCompile(f *testing.F) {
	f.Add(`payload.amount > 100`, `{"amount":1}`)
	f.Add(`payload.a.all(x, x > 1)`, `{"a":[1,"2",null]}`)
	f.Add(`payload[variables.k]`, `{"a":{}}`)
	f.Add(`{"a": 1}[payload.k] == 1`, `{"k":"a"}`)
	l := language(f)
	f.Fuzz(func(t *testing.T, text, payload string) {
		p, err := Value([]byte(payload))
		if err != nil {
			return
		}
		program, err := l.Compile(text, Bool)
		if err != nil {
			return
		}
		_, _ = program.Holds(map[string]any{"payload": p, "variables": map[string]any{}, "artifacts": map[string]any{}, "tool": "t", "model": ""})
	})
}
