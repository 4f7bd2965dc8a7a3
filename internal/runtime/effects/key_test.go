package effects

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// KeyOf is the key that calls have today.
func KeyOf(tool string, fields []string, payload []byte) ([32]byte, *machine.Denial) {
	var older LegacyKeys
	return older.KeyOf(tool, fields, payload)
}

func TestKeysOfEqualCallsAreEqual(t *testing.T) {
	t.Parallel()
	one := []string{"/order_id"}
	base, denial := KeyOf("refund", one, []byte(`{"order_id":7,"why":"a"}`))
	if denial != nil || base == [32]byte{} {
		t.Fatalf("%x, %+v", base, denial)
	}
	for payload, same := range map[string]bool{
		`{"why":"b","order_id":7}`: true, `{"order_id":7.0}`: true, `{"order_id":70e-1}`: true, "{\"order_id\" :7}": true,
		`{"order_id":"7"}`: false, `{"order_id":7.5}`: false, `{"order_id":[7]}`: false,
		`{"order_id":9007199254740993}`: false, `{"order_id":true}`: false,
	} {
		key, denial := KeyOf("refund", one, []byte(payload))
		if denial != nil || (key == base) != same {
			t.Errorf("%s: %x, %+v", payload, key, denial)
		}
	}
	if other, _ := KeyOf("charge", one, []byte(`{"order_id":7}`)); other == base {
		t.Error("two tools have one key")
	}
	large, _ := KeyOf("refund", one, []byte(`{"order_id":9007199254740992}`))
	if next, _ := KeyOf("refund", one, []byte(`{"order_id":9007199254740993}`)); next == large {
		t.Error("two large numbers have one key")
	}
	deep, denial := KeyOf("refund", []string{"/order/ids/1", "/a~1b"}, []byte(`{"order":{"ids":[1,{"y":2,"x":1}]},"a/b":"c"}`))
	if turned, _ := KeyOf("refund", []string{"/order/ids/1", "/a~1b"}, []byte(`{"a/b":"c","order":{"ids":[9,{"x":1,"y":2}]}}`)); denial != nil || turned != deep {
		t.Errorf("%x, %x, %+v", deep, turned, denial)
	}
}

func TestCallsWithoutTheirKeyAreRefused(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{}`, `{"order_id":null}`, `{"order":{"order_id":1}}`, `[]`, `7`} {
		if _, denial := KeyOf("refund", []string{"/order_id"}, []byte(payload)); denial == nil || denial.Code != MissingField {
			t.Errorf("%s: %+v", payload, denial)
		}
	}
	for _, field := range []string{"/a/2", "/a/01", "/a/-1", "/a/x"} {
		if _, denial := KeyOf("refund", []string{field}, []byte(`{"a":[1,2]}`)); denial == nil {
			t.Errorf("%s is there", field)
		}
	}
	if key, denial := KeyOf("refund", nil, []byte(`{}`)); denial != nil || key != [32]byte{} {
		t.Errorf("no fields: %x, %+v", key, denial)
	}
}

// FuzzKeyOf: a call has a key or a refusal, and the same one in any spelling.
func FuzzKeyOf(f *testing.F) {
	f.Add("/order_id", `{"order_id":7}`)
	f.Add("/a/0/b~1c", `{"a":[{"b/c":1e400}]}`)
	f.Fuzz(func(t *testing.T, field, payload string) {
		key, denial := KeyOf("refund", []string{field}, []byte(payload))
		if (denial == nil) == (key == [32]byte{}) {
			t.Fatalf("%x, %+v", key, denial)
		}
		if denial != nil {
			return
		}
		again, denial := KeyOf("refund", []string{field}, []byte(" "+payload+" "))
		if denial != nil || again != key {
			t.Fatalf("%x, %x, %+v", key, again, denial)
		}
	})
}

// TestEqualNumbersAreOneKey: whichever way a number is written, the key is that of its value;
// numbers that are not equal have two, also those that doubles do not tell apart.
func TestEqualNumbersAreOneKey(t *testing.T) {
	t.Parallel()
	key := func(number string) [32]byte {
		key, denial := KeyOf("pay", []string{"/n"}, []byte(`{"n":{"of":[`+number+`]}}`))
		if denial != nil {
			t.Fatalf("%s: %+v", number, denial)
		}
		return key
	}
	seen := map[[32]byte]string{}
	for _, same := range [][]string{
		{"49.9", "49.90", "4.99e1"}, {"0", "-0", "0.0", "-0e7"}, {"10000000000000000", "1e16", "1.0E+16"}, {"-49.9", "-49.90"}, {"1e999", "10e998"}, {"0.1e999", "1e998"},
		{"9007199254740992"}, {"9007199254740993", "9007199254740993.0"}, {"9007199254740994"}, {"0.1"}, {"0.1000000000000000055511151231257827"}, {"7", "7.0", "7e0"},
	} {
		first := key(same[0])
		if other, there := seen[first]; there {
			t.Errorf("%s and %s are one key", other, same[0])
		}
		seen[first] = same[0]
		for _, number := range same {
			if key(number) != first {
				t.Errorf("%s and %s are two keys", same[0], number)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		unscaled := rapid.SampledFrom([]int64{0, 1, 499, 4990, 1 << 53, 1<<53 + 1, 1<<63 - 1, 9_999_999}).Draw(rt, "unscaled")
		a := fmt.Sprintf("%de%d", unscaled, rapid.IntRange(-30, 30).Draw(rt, "exponent"))
		x, _ := new(big.Rat).SetString(a)
		y := new(big.Rat).Add(x, big.NewRat(rapid.Int64Range(0, 1).Draw(rt, "off"), 1))
		b := y.FloatString(rapid.IntRange(30, 60).Draw(rt, "digits"))
		if (key(a) == key(b)) != (x.Cmp(y) == 0) {
			rt.Fatalf("%s and %s: one key: %v", a, b, key(a) == key(b))
		}
	})
	for _, huge := range []string{"1e999999999", "1e-999999999", "1e1000", strings.Repeat("9", strictjson.MaxNumber+1)} {
		if _, denial := KeyOf("pay", []string{"/n"}, []byte(`{"n":`+huge+`}`)); denial == nil || denial.Code != MissingField {
			t.Errorf("%.40s: %+v", huge, denial)
		}
	}
}

// TestOlderKeys: a key that an earlier program gave a call is found by the call's spelling.
func TestOlderKeys(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{ // made by the program of ADR 0067
		`{"n":49.90}`: "3eb9492540d0cee59f287f4d3199923fb7877aee29708849411eaf058d716c0f", `{"n":49.9}`: "8290b67e75e2286e6085770bb8fb28bbba5a92b8cb9abc4434193cf50eb41799", `{"n":-0}`: "803ef9317de49c7df06131ccf35d0dc73ffbb4237eff24b8c5efaa6e36e9ef6b", `{"n":1e16}`: "8981072ceeb6976e7409ec6be93bd87b49658d22026a79779b157a56aead0d7a", `{"n":70e-1}`: "247ed90ad892c19f503e9fafbe26a784fbb7803c87c30517a1f02498cc5c15a8",
	} {
		keys, denial := KeysOf("pay", []string{"/n"}, []byte(payload))
		if denial != nil || fmt.Sprintf("%x", keys.Older) != want {
			t.Errorf("%s: %x, %+v; it was %s", payload, keys.Older, denial, want)
		}
	}
}
