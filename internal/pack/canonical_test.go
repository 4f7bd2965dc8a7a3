package pack

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCanonical: the examples of RFC 8785, and what a digest rests on.
func TestCanonical(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		// RFC 8785 section 3.2.2 and 3.2.3.
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew","1":"One","\ud83d\ude00":"Emoji","\u0080":"Control","\u00f6":"Latin"}`:                                `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin","€":"Euro Sign","😀":"Emoji","` + "\ufb33" + `":"Hebrew"}`,
		`{"a":-0,"b":1.0,"c":1e2,"d":100}`:                         `{"a":0,"b":1,"c":100,"d":100}`,
		"{\"b\" :\n[ ] ,\t\"a\":{ } }":                             `{"a":{},"b":[]}`,
		`{"html":"<a>&\u2028"}`:                                    `{"html":"<a>&` + "\u2028" + `"}`,
		`{"min":5e-324,"max":1.7976931348623157e308,"x":1e-7}`:     `{"max":1.7976931348623157e+308,"min":5e-324,"x":1e-7}`,
		`{"a":9007199254740992,"b":-9007199254740992,"c":1e21}`:    `{"a":9007199254740992,"b":-9007199254740992,"c":1e+21}`,
		`{"esc":"\u0000\u001f\u007f\b\f\t"}`:                       `{"esc":"\u0000\u001f` + "\u007f" + `\b\f\t"}`,
		`{"a":{"b":{"d":1,"c":[{"z":1,"y":2}]}},"A":1,"_":2,"":3}`: `{"":3,"A":1,"_":2,"a":{"b":{"c":[{"y":2,"z":1}],"d":1}}}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		got, err := canonical(v)
		if err != nil || string(got) != want {
			t.Errorf("%s\ngot  %s %v\nwant %s", in, got, err, want)
		}
	}
}

// TestDigests pins the digests of the example packs: a changed canonical form
// would orphan every registered pack.
func TestDigests(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"rfc0005-1-simple-agent.json":       "6da5d198a830b68a4b93ac4b734ed9cb6f5ad5c80bc62579249f5a418feb40ae",
		"rfc0005-2-multi-phase-agent.yaml":  "8751e0600f2fafd5186541260002664bd722590c0475c2cfb5de598d4dfeb672",
		"rfc0005-3-orchestrated-agent.json": "b4a4dbcddce85589c1525d91be1ae51e3fd2a0a3df3b81f8204b24bcde3e0ec1",
		"rfc0007-1-research-team.yaml":      "57fab91be6688ef9578a45e74f4973bc8ce99fedaed979ea11d21be67d41bb2a",
		"rfc0007-2-customer-service.yaml":   "561cdd4c23a6dabdd196197adb65296944294c9df6ec2bd8b57e619eac271e5a",
		"rfc0007-3-vision-assistant.yaml":   "f221f0782653968cf1fb160e3c5a32d784a446603ee67a5c9523200d29f1e63a",
		"rfc0009-1-codegen-agent.yaml":      "89959492e27c6790fdb1e3178035eb2ee58e538734c5347a35bebc5a47db2b3a",
		"rfc0009-2-data-explorer.yaml":      "ec52582b82d1c8b2f55fcbaa1009a3403cc5c6b03c346b44a6943fe6395dbf79",
		"rfc0009-3-self-correcting.json":    "dd0d1d740ac074fbae57a9454efad169642113098351df0c1d3c83c46de8c7b5",
		"rfc0009-4-ops-remediation.yaml":    "32f53ffcf3b4f18c872c43e50fe5af3c3b738304ecf788aa29fb9cc5840d6b91",
		"rfc0011-1-security-review.yaml":    "da209c46d78e086bdfc905010245491eef1b365abdf61da63042f704fcfb2ffc",
	}
	for name, src := range examples(t) {
		p, _, err := Load(src, Options{})
		if err != nil || p == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.Digest != "sha256:"+want[name] {
			t.Errorf("%s: %s", name, p.Digest)
		}
		if string(p.Source) != string(src) || !strings.HasPrefix(string(p.Canonical), "{") {
			t.Errorf("%s: source or canonical form is not kept", name)
		}
	}
}
