package effect

import (
	"encoding/json"
	"testing"
)

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
		var doc any
		if denial != nil || json.Unmarshal([]byte(payload), &doc) != nil {
			return
		}
		again, denial := KeyOf("refund", []string{field}, []byte(" "+payload+" "))
		if denial != nil || again != key {
			t.Fatalf("%x, %x, %+v", key, again, denial)
		}
	})
}
