package strictjson

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDecimal(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]string{
		"49.9": {"49.9", "49.90", "4.99e1", "499E-1", "0.499e+2"}, "0": {"0", "-0", "0.00", "0e9", "-0.0e-5"},
		"10000000000000000": {"10000000000000000", "1e16", "1.0e+16"}, "-7": {"-7", "-7.0", "-70e-1"}, "0.001": {"0.001", "1e-3", "1.00E-03"},
		"9007199254740993": {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"}, "1e999": {"1e999", "10e998"}, "1e-999": {"1e-999", "0.1e-998"},
		"-123456e90": {"-123456e90", "-1.23456e95"},
	} {
		for _, lit := range all {
			if got := Decimal(lit); got != want {
				t.Errorf("%s is %s, want %s", lit, got, want)
			}
		}
	}
}

// number draws a JSON number in some spelling.
func number(t *rapid.T) string {
	lit := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number")
	if rapid.Bool().Draw(t, "near") {
		base := rapid.SampledFrom([]string{"9007199254740992", "18446744073709551616", "1e16", "4.99e1", "0.1", "1e23"}).Draw(t, "base")
		r, _ := new(big.Rat).SetString(base)
		r.Add(r, big.NewRat(rapid.Int64Range(-2, 2).Draw(t, "off"), 1))
		lit = r.FloatString(rapid.IntRange(0, 3).Draw(t, "digits"))
	}
	return lit
}

// TestEqualNumbers: two numbers have one spelling exactly if they are equal.
func TestEqualNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := number(t), number(t)
		if rapid.Bool().Draw(t, "again") { // the same number in another spelling
			r, _ := new(big.Rat).SetString(a)
			b = r.FloatString(1100)
			b = strings.TrimRight(b, "0")
			b = strings.TrimSuffix(b, ".")
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if (Decimal(a) == Decimal(b)) != (x.Cmp(y) == 0) {
			t.Fatalf("%s is %s, %s is %s", a, Decimal(a), b, Decimal(b))
		}
		if z, ok := new(big.Rat).SetString(Decimal(a)); !ok || z.Cmp(x) != 0 || !Valid([]byte(Decimal(a))) {
			t.Fatalf("%s became %s", a, Decimal(a))
		}
	})
}

// TestDouble: a double is the same number only if no reader of it can see another one.
func TestDouble(t *testing.T) {
	t.Parallel()
	for lit, want := range map[string]bool{
		"0": true, "-0": true, "49.9": true, "0.1": true, "1e22": true, "9007199254740991": true, "9007199254740992": true, "1e16": true, "1e-7": true,
		"9007199254740993": false, "1e23": false, "1152921504606846976": false, "12345678901234567890": false,
		"0.1000000000000000055511151231257827": false, "49.899999999999999": false, "1e999": false, "1e-999": false, "9007199254740992.5": false,
	} {
		if _, exact := Double(lit); exact != want {
			t.Errorf("%s: %v", lit, exact)
		}
	}
	if err := Doubles([]byte(`{"a":[{"b":1},{"c":9007199254740993}]}`)); err == nil || !strings.HasPrefix(err.Error(), "/a/1/c: the number 9007199254740993 is another one") {
		t.Error(err)
	}
}

// TestNumbersTakeNoTime: what a number costs does not depend on its exponent.
func TestNumbersTakeNoTime(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	for _, lit := range []string{"1e999999999", "-1.5E-99999999999999999999", "1e" + strings.Repeat("9", 1<<20)} {
		if Check([]byte(lit)) == nil {
			t.Errorf("%.30s was taken", lit)
		}
	}
	many := []byte("[" + strings.Repeat("1e999,", 100_000) + "1e-999]")
	value, err := Value(many)
	if err != nil || len(value.([]any)) != 100_001 || Doubles(many) == nil {
		t.Error(err)
	}
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("it took %s", d)
	}
}
